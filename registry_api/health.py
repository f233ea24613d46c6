"""Whether the process lives, and whether it can do its work."""

from typing import Literal

from fastapi import APIRouter
from sqlalchemy import text

from ai_model_format.wire import Response
from registry_api.db.session import transaction
from registry_api.problems import responses
from registry_api.requests import PartsOf

router = APIRouter(prefix="/v1", tags=["health"])


class Health(Response):
    """An answer that says yes."""

    status: Literal["ok"] = "ok"


@router.get("/live")
async def live() -> Health:
    """Say that the process answers."""
    return Health()


@router.get("/ready", responses=responses(503))
def ready(parts: PartsOf) -> Health:
    """Say that Postgres and the store answer too."""
    with transaction(parts.engine) as session:
        session.execute(text("SELECT 1"))
    parts.store.check()
    return Health()
