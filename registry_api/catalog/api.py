"""Models, versions, aliases and tokens over HTTP."""

import uuid
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from ai_model_format.wire import (
    MAX_PAGE_SIZE,
    AliasInfo,
    AliasList,
    AliasName,
    AliasRequest,
    Identity,
    ModelId,
    ModelInfo,
    ModelPage,
    Ref,
    Text,
    TokenCreated,
    TokenList,
    TokenRequest,
    VersionInfo,
    VersionPage,
    YankRequest,
)
from registry_api import __version__
from registry_api.access import Caller
from registry_api.catalog import aliases, resolve, service, tokens
from registry_api.db.session import transaction
from registry_api.get.ranges import tag_matches
from registry_api.parts import Parts
from registry_api.problems import responses
from registry_api.quick import QuickRoute
from registry_api.requests import (
    Admin,
    AnyCaller,
    DbSession,
    PartsOf,
    Read,
    Reader,
    Seed,
    StrictRoute,
    Turn,
    Writer,
)

router = APIRouter(prefix="/v1", route_class=StrictRoute, tags=["catalog"])
quick = APIRouter(prefix="/v1", route_class=QuickRoute, tags=["catalog"])

PageSize = Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE)]
PageToken = Annotated[Text | None, Query(max_length=1024)]
IfMatch = Annotated[str | None, Header(max_length=1024)]
JSON = "application/json"
LARGE = 32 * 1024
"""Characters of a version that take about a millisecond to make JSON of."""
READ = responses(401, 403, 404, 422)


@router.get("/whoami", responses=responses(401))
async def whoami(caller: AnyCaller) -> Identity:
    """Return who the caller is."""
    return Identity(
        name=caller.name,
        role=caller.role,
        models=list(caller.models),
        endpoint_version=__version__,
    )


@router.get("/models", response_model=ModelPage, responses=responses(401, 422))
async def list_models(
    read: Read,
    caller: AnyCaller,
    prefix: Annotated[Text, Query(max_length=256)] = "",
    page_size: PageSize = 100,
    page_token: PageToken = None,
) -> Response:
    """Return models that the caller may read, by id."""
    page = await read.by_driver(
        service.list_models, caller, prefix=prefix, page_size=page_size, page_token=page_token
    )
    return Response(page.model_dump_json(), media_type=JSON)


@router.get("/models/{model_id:model_id}", responses=READ)
async def get_model(model_id: ModelId, read: Read, caller: Reader) -> ModelInfo:
    """Return one model."""
    return await read.by_driver(service.show_model, model_id)


@router.get("/models/{model_id:model_id}/versions", response_model=VersionPage, responses=READ)
async def list_versions(
    model_id: ModelId,
    read: Read,
    caller: Reader,
    page_size: PageSize = 100,
    page_token: PageToken = None,
) -> Response:
    """Return versions of a model, newest first."""
    data = await read.by_driver(
        service.list_versions, model_id, page_size=page_size, page_token=page_token
    )
    return Response(data, media_type=JSON)


@quick.get(
    "/models/{model_id:model_id}/versions/{ref}",
    response_model=VersionInfo,
    responses={304: {"description": "The client holds it"}, **READ},
)
async def get_version(
    model_id: ModelId, ref: Ref, request: Request, read: Read, caller: Reader
) -> Response:
    """Resolve a version name, alias, ``latest`` or digest to one immutable version."""
    row = await read.version(resolve.shown, model_id, ref)
    if row.length > LARGE:
        data, etag = await run_in_threadpool(service.shown_json, model_id, row)
    else:
        data, etag = service.shown_json(model_id, row)
    headers = {"ETag": etag, "Cache-Control": "private, no-cache"}
    if tag_matches(request.headers.get("if-none-match"), etag):
        return Response(status_code=304, headers=headers)
    return Response(data, headers=headers, media_type=JSON)


@router.put(
    "/models/{model_id:model_id}/versions/{ref}/yank",
    response_model=VersionInfo,
    responses=responses(401, 403, 404, 412, 422),
)
def yank_version(
    model_id: ModelId,
    ref: Ref,
    body: YankRequest,
    session: DbSession,
    caller: Writer,
    if_match: IfMatch = None,
) -> Response:
    """Mark a version as not to be used; ``latest`` passes over it, its bytes stay readable."""
    data, etag = service.yank(session, caller, model_id, ref, body.reason, if_match=if_match)
    return Response(data, headers={"ETag": etag}, media_type=JSON)


@router.delete(
    "/models/{model_id:model_id}/versions/{ref}/yank",
    response_model=VersionInfo,
    responses=responses(401, 403, 404, 412, 422),
)
def unyank_version(
    model_id: ModelId,
    ref: Ref,
    session: DbSession,
    caller: Writer,
    if_match: IfMatch = None,
) -> Response:
    """Take a yank back."""
    data, etag = service.yank(session, caller, model_id, ref, None, if_match=if_match)
    return Response(data, headers={"ETag": etag}, media_type=JSON)


@router.get("/models/{model_id:model_id}/aliases", responses=READ)
async def list_aliases(
    model_id: ModelId,
    read: Read,
    caller: Reader,
    page_size: PageSize = 100,
    page_token: PageToken = None,
) -> AliasList:
    """Return aliases of a model, by name."""
    return await read(service.list_aliases, model_id, page_size=page_size, page_token=page_token)


@router.get("/models/{model_id:model_id}/aliases/{alias}", responses=READ)
async def get_alias(
    model_id: ModelId, alias: AliasName, response: Response, read: Read, caller: Reader
) -> AliasInfo:
    """Return an alias; its ETag is for ``If-Match``."""
    info, etag = await read(aliases.show, model_id, alias)
    response.headers["ETag"] = etag
    return info


@router.put(
    "/models/{model_id:model_id}/aliases/{alias}", responses=responses(401, 403, 404, 409, 412, 422)
)
def put_alias(
    model_id: ModelId,
    alias: AliasName,
    body: AliasRequest,
    response: Response,
    session: DbSession,
    caller: Writer,
    if_match: IfMatch = None,
    if_none_match: IfMatch = None,
) -> AliasInfo:
    """Point an alias at a version, if it is still what the caller saw."""
    info, etag = aliases.put(
        session,
        caller,
        model_id,
        alias,
        ref=body.version,
        if_match=if_match,
        if_none_match=if_none_match,
    )
    response.headers["ETag"] = etag
    return info


@router.delete(
    "/models/{model_id:model_id}/aliases/{alias}",
    status_code=204,
    responses=responses(401, 403, 404, 412, 422),
)
def delete_alias(
    model_id: ModelId,
    alias: AliasName,
    session: DbSession,
    caller: Writer,
    if_match: IfMatch = None,
) -> None:
    """Take an alias away."""
    aliases.remove(session, caller, model_id, alias, if_match=if_match)


@router.post("/tokens", status_code=201, responses=responses(401, 403, 422))
def create_token(body: TokenRequest, session: DbSession, caller: Admin, seed: Seed) -> TokenCreated:
    """Make a token; its secret is shown this once, and when the same creation is sent again."""
    return tokens.create(session, caller, body, seed=seed)


@router.get("/tokens", responses=responses(401, 403, 422))
def list_tokens(
    session: DbSession, caller: Admin, page_size: PageSize = 100, page_token: PageToken = None
) -> TokenList:
    """Return tokens without their secrets, newest first."""
    return tokens.list_page(session, page_size=page_size, page_token=page_token)


@router.delete("/tokens/{token_id}", status_code=204, responses=responses(401, 403, 404, 422))
async def revoke_token(token_id: uuid.UUID, parts: PartsOf, turn: Turn, caller: Admin) -> None:
    """Make a token worthless: at once in this process, a few seconds later in others."""
    await run_in_threadpool(_revoke, parts, caller, token_id)


def _revoke(parts: Parts, caller: Caller, token_id: uuid.UUID) -> None:
    with transaction(parts.engine) as session:
        tokens.revoke(session, caller, token_id)
    parts.tokens.forget_all()
