"""HTTP of traffic: endpoints under leases, routes, gateways."""

import re
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Response

from ai_model_format.wire import (
    MAX_PAGE_SIZE,
    Address,
    EndpointInfo,
    EndpointList,
    EndpointRequest,
    FiguresRequest,
    GatewayList,
    ModelId,
    RollbackRequest,
    RouteHistory,
    RouteInfo,
    RouteRequest,
)
from registry_api.errors import PreconditionFailed
from registry_api.problems import responses
from registry_api.requests import AnyCaller, DbSession, Reader, StrictRoute, Writer
from registry_api.routing import endpoints, gateways, routes, worker

router = APIRouter(
    prefix="/v1", route_class=StrictRoute, tags=["traffic"], lifespan=worker.lifespan
)

IfMatch = Annotated[str | None, Header(description="ETag of the route that the caller saw")]
GatewayId = Annotated[str, Path(pattern=r"^[A-Za-z0-9._-]{1,128}$")]


@router.get("/models/{model_id:model_id}/endpoints", responses=responses(401, 403, 404, 422))
def list_endpoints(model_id: ModelId, _: Reader, session: DbSession) -> EndpointList:
    """List the inference servers of a model and what they have loaded."""
    return endpoints.show_all(session, model_id)


@router.put(
    "/models/{model_id:model_id}/endpoints/{address}", responses=responses(401, 403, 404, 422)
)
def put_endpoint(
    model_id: ModelId, address: Address, body: EndpointRequest, caller: Writer, session: DbSession
) -> EndpointInfo:
    """Register a server, or say that it lives and what it has loaded now."""
    return endpoints.beat(session, caller, model_id, address, body)


@router.delete(
    "/models/{model_id:model_id}/endpoints/{address}",
    status_code=204,
    responses=responses(401, 403, 404, 422),
)
def delete_endpoint(
    model_id: ModelId, address: Address, caller: Writer, session: DbSession
) -> None:
    """Take a server out at once; its running requests end well."""
    endpoints.remove(session, caller, model_id, address)


@router.get("/models/{model_id:model_id}/route", responses=responses(401, 403, 404, 422))
def get_route(model_id: ModelId, _: Reader, session: DbSession, response: Response) -> RouteInfo:
    """Return the share of traffic of each version."""
    return _with_etag(response, routes.show(session, model_id))


@router.put("/models/{model_id:model_id}/route", responses=responses(401, 403, 404, 409, 412, 422))
def put_route(
    model_id: ModelId,
    body: RouteRequest,
    caller: Writer,
    session: DbSession,
    response: Response,
    if_match: IfMatch = None,
    dry_run: Annotated[bool, Query(description="Check everything, change nothing")] = False,
) -> RouteInfo:
    """Split a model's traffic between versions."""
    changed = routes.change(session, caller, model_id, body, expected=_revision(if_match))
    if dry_run:
        session.rollback()
    return _with_etag(response, changed)


@router.post(
    "/models/{model_id:model_id}/route/rollback", responses=responses(401, 403, 404, 409, 412, 422)
)
def roll_back_route(
    model_id: ModelId,
    body: RollbackRequest,
    caller: Writer,
    session: DbSession,
    response: Response,
    if_match: IfMatch = None,
) -> RouteInfo:
    """Go back to the split before, or to a named revision's."""
    changed = routes.rollback(session, caller, model_id, body, expected=_revision(if_match))
    return _with_etag(response, changed)


@router.get("/models/{model_id:model_id}/route/history", responses=responses(401, 403, 404, 422))
def get_route_history(
    model_id: ModelId,
    _: Reader,
    session: DbSession,
    before: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None,
    page_size: Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE)] = 100,
) -> RouteHistory:
    """Return the revisions of a route, newest first; ``before`` goes on from the last one."""
    return routes.history(session, model_id, before=before, limit=page_size)


@router.get("/gateways", responses=responses(401, 403))
def list_gateways(caller: AnyCaller, session: DbSession) -> GatewayList:
    """List gateways, and how far each has followed."""
    caller.require("reader")
    return gateways.show_all(session)


@router.put("/gateways/{gateway_id}/figures", status_code=204, responses=responses(401, 403, 422))
def put_figures(
    gateway_id: GatewayId, body: FiguresRequest, caller: AnyCaller, session: DbSession
) -> None:
    """Take what a gateway counted; rollouts decide by it."""
    for model_id in sorted({version.model_id for version in body.versions}):
        caller.require("writer", model_id)
    gateways.count(session, gateway_id, body)


def _revision(if_match: str | None) -> int | None:
    """Read the revision in an ``If-Match``.

    Raises:
        PreconditionFailed: it is not an ETag of a route.
    """
    if if_match is None or if_match.strip() == "*":
        return None
    found = re.fullmatch(r'(?:W/)?"(\d{1,9})"', if_match.strip())
    if found is None:
        raise PreconditionFailed("If-Match is not the ETag of a route")
    return int(found[1])


def _with_etag(response: Response, route: RouteInfo) -> RouteInfo:
    response.headers["ETag"] = f'"{route.revision}"'
    return route
