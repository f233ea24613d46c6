"""Lineage over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from ai_model_format.wire import (
    MAX_LINEAGE_DEPTH,
    MAX_LINEAGE_NODES,
    Direction,
    LineageInfo,
    ModelId,
    Ref,
)
from registry_api.lineage import service
from registry_api.problems import responses
from registry_api.requests import Read, Reader, StrictRoute

router = APIRouter(prefix="/v1", route_class=StrictRoute, tags=["catalog"])


@router.get(
    "/models/{model_id:model_id}/versions/{ref}/lineage",
    response_model=LineageInfo,
    responses=responses(401, 403, 404, 422),
)
async def get_lineage(
    model_id: ModelId,
    ref: Ref,
    read: Read,
    caller: Reader,
    direction: Direction = "both",
    depth: Annotated[int, Query(ge=1, le=MAX_LINEAGE_DEPTH, description="Generations")] = 10,
    max_nodes: Annotated[int, Query(ge=1, le=MAX_LINEAGE_NODES)] = 200,
) -> Response:
    """Return what a version was made from, and what was made from it, of what is readable."""
    data = await read.by_driver(
        service.show,
        caller,
        model_id,
        ref,
        direction=direction,
        depth=depth,
        max_nodes=max_nodes,
    )
    return Response(data, media_type="application/json")
