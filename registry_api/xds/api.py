"""Envoy's discovery services: JSON by long poll.

A gateway asks with the version it has; the answer waits until there is another
one, or says 304. New clusters go before the routes that use them: routes are
held until the gateway says that it has the clusters.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse

from ai_model_format.gateway import USER_HEADER
from registry_api.access import Caller
from registry_api.errors import Forbidden
from registry_api.requests import AnyCaller, StrictRoute
from registry_api.xds.control_plane import ControlPlane
from registry_api.xds.poll import Kind, Poll


class Node(BaseModel):
    """Who asks, as far as it matters here."""

    model_config = ConfigDict(extra="ignore")
    id: Annotated[str, Field(max_length=128)] = ""
    metadata: dict[str, Any] = {}


class DiscoveryRequest(BaseModel):
    """What Envoy sends."""

    model_config = ConfigDict(extra="ignore")
    version_info: Annotated[str, Field(max_length=64)] = ""
    resource_names: Annotated[list[str], Field(max_length=1000)] = []
    node: Node = Node()


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Listen to Postgres as long as the process runs."""
    plane = ControlPlane(app.state.parts.engine)
    plane.watcher.start()
    app.state.control_plane = plane
    yield
    await plane.watcher.close()


router = APIRouter(
    prefix="/v3", route_class=StrictRoute, include_in_schema=False, lifespan=lifespan
)


@router.post("/discovery:clusters")
async def discover_clusters(
    body: DiscoveryRequest, caller: AnyCaller, request: Request
) -> Response:
    """Tell a gateway which clusters there are."""
    return await _discover("clusters", body, caller, request)


@router.post("/discovery:endpoints")
async def discover_endpoints(
    body: DiscoveryRequest, caller: AnyCaller, request: Request
) -> Response:
    """Tell a gateway which servers a cluster has."""
    return await _discover("endpoints", body, caller, request)


@router.post("/discovery:routes")
async def discover_routes(body: DiscoveryRequest, caller: AnyCaller, request: Request) -> Response:
    """Tell a gateway which request goes where."""
    return await _discover("routes", body, caller, request)


async def _discover(
    kind: Kind, body: DiscoveryRequest, caller: Caller, request: Request
) -> Response:
    caller.require("reader")
    if not caller.sees_all:
        raise Forbidden("a gateway needs a token for all models")
    plane: ControlPlane = request.app.state.control_plane
    news = await plane.wait_for_news(_poll(kind, body))
    return Response(status_code=304) if news is None else JSONResponse(news)


def _poll(kind: Kind, body: DiscoveryRequest) -> Poll:
    metadata = body.node.metadata
    return Poll(
        kind=kind,
        gateway_id=body.node.id,
        has_version=body.version_info,
        names=tuple(body.resource_names),
        registry_cluster=str(metadata.get("registry_cluster", "")),
        user_header=str(metadata.get("user_header", USER_HEADER)),
    )
