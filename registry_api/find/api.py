"""Find over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from ai_model_format.wire import FindRequest, VersionPage
from registry_api.find import service
from registry_api.problems import responses
from registry_api.requests import AnyCaller, Read, StrictRoute

router = APIRouter(prefix="/v1", route_class=StrictRoute, tags=["catalog"])


TOO_LONG = {"description": "The URL is longer than 65,535 bytes", "content": {"text/plain": {}}}
"""The server's own answer, before anything here is asked."""


@router.get(
    "/versions", response_model=VersionPage, responses={400: TOO_LONG, **responses(401, 422)}
)
async def find_versions(
    read: Read, caller: AnyCaller, request: Annotated[FindRequest, Query()]
) -> Response:
    """Return versions of which all of this is true and that the caller may read, newest first."""
    data = await read.by_driver(service.find, caller, request)
    return Response(data, media_type="application/json")
