"""Models, versions, aliases and tokens over HTTP."""

import uuid
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
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
from registry_api.catalog import aliases, service, tokens
from registry_api.get.ranges import tag_matches
from registry_api.problems import responses
from registry_api.requests import (
    Admin,
    AnyCaller,
    DbSession,
    Reader,
    Seed,
    StrictRoute,
    Writer,
)

router = APIRouter(prefix="/v1", route_class=StrictRoute, tags=["catalog"])

PageSize = Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE)]
PageToken = Annotated[Text | None, Query(max_length=1024)]
IfMatch = Annotated[str | None, Header(max_length=1024)]
READ = responses(401, 403, 404, 422)


@router.get("/whoami", responses=responses(401))
def whoami(caller: AnyCaller) -> Identity:
    """Return who the caller is."""
    return Identity(
        name=caller.name,
        role=caller.role,
        models=list(caller.models),
        endpoint_version=__version__,
    )


@router.get("/models", responses=responses(401, 422))
def list_models(
    session: DbSession,
    caller: AnyCaller,
    prefix: Annotated[Text, Query(max_length=256)] = "",
    page_size: PageSize = 100,
    page_token: PageToken = None,
) -> ModelPage:
    """Return models that the caller may read, by id."""
    return service.list_models(
        session, caller, prefix=prefix, page_size=page_size, page_token=page_token
    )


@router.get("/models/{model_id:model_id}", responses=READ)
def get_model(model_id: ModelId, session: DbSession, caller: Reader) -> ModelInfo:
    """Return one model."""
    return service.show_model(session, model_id)


@router.get("/models/{model_id:model_id}/versions", responses=READ)
def list_versions(
    model_id: ModelId,
    session: DbSession,
    caller: Reader,
    page_size: PageSize = 100,
    page_token: PageToken = None,
) -> VersionPage:
    """Return versions of a model, newest first."""
    return service.list_versions(session, model_id, page_size=page_size, page_token=page_token)


@router.get(
    "/models/{model_id:model_id}/versions/{ref}",
    response_model=VersionInfo,
    responses={304: {"description": "The client holds it"}, **READ},
)
def get_version(
    model_id: ModelId,
    ref: Ref,
    request: Request,
    response: Response,
    session: DbSession,
    caller: Reader,
) -> Any:
    """Resolve a version name, alias, ``latest`` or digest to one immutable version."""
    info, etag = service.show_version(session, model_id, ref)
    headers = {"ETag": etag, "Cache-Control": "private, no-cache"}
    if tag_matches(request.headers.get("if-none-match"), etag):
        return Response(status_code=304, headers=headers)
    response.headers.update(headers)
    return info


@router.put(
    "/models/{model_id:model_id}/versions/{ref}/yank", responses=responses(401, 403, 404, 412, 422)
)
def yank_version(
    model_id: ModelId,
    ref: Ref,
    body: YankRequest,
    response: Response,
    session: DbSession,
    caller: Writer,
    if_match: IfMatch = None,
) -> VersionInfo:
    """Mark a version as not to be used; ``latest`` passes over it, its bytes stay readable."""
    info, etag = service.yank(session, caller, model_id, ref, body.reason, if_match=if_match)
    response.headers["ETag"] = etag
    return info


@router.delete(
    "/models/{model_id:model_id}/versions/{ref}/yank", responses=responses(401, 403, 404, 412, 422)
)
def unyank_version(
    model_id: ModelId,
    ref: Ref,
    response: Response,
    session: DbSession,
    caller: Writer,
    if_match: IfMatch = None,
) -> VersionInfo:
    """Take a yank back."""
    info, etag = service.yank(session, caller, model_id, ref, None, if_match=if_match)
    response.headers["ETag"] = etag
    return info


@router.get("/models/{model_id:model_id}/aliases", responses=READ)
def list_aliases(
    model_id: ModelId,
    session: DbSession,
    caller: Reader,
    page_size: PageSize = 100,
    page_token: PageToken = None,
) -> AliasList:
    """Return aliases of a model, by name."""
    return service.list_aliases(session, model_id, page_size=page_size, page_token=page_token)


@router.get("/models/{model_id:model_id}/aliases/{alias}", responses=READ)
def get_alias(
    model_id: ModelId, alias: AliasName, response: Response, session: DbSession, caller: Reader
) -> AliasInfo:
    """Return an alias; its ETag is for ``If-Match``."""
    info, etag = aliases.show(session, model_id, alias)
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
def revoke_token(token_id: uuid.UUID, session: DbSession, caller: Admin) -> None:
    """Make a token worthless from now on."""
    tokens.revoke(session, caller, token_id)
