"""The history over HTTP."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query

from ai_model_format.wire import MAX_PAGE_SIZE, ModelId, Response, Text
from registry_api.catalog.pages import decode_numeric_page_token, encode_page_token
from registry_api.events import queries
from registry_api.problems import responses
from registry_api.requests import AnyCaller, DbSession, StrictRoute

router = APIRouter(prefix="/v1", route_class=StrictRoute, tags=["events"])


class EventInfo(Response):
    """One line of the history."""

    event_id: int
    at: datetime
    actor: str
    action: str
    model_id: str | None
    subject: str
    before: Any = None
    after: Any = None


class EventPage(Response):
    """Lines of the history, newest first."""

    events: list[EventInfo]
    next_page_token: str | None = None


@router.get("/events", responses=responses(401, 403, 422))
def list_events(
    session: DbSession,
    caller: AnyCaller,
    model_id: Annotated[ModelId | None, Query()] = None,
    page_size: Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE)] = 100,
    page_token: Annotated[Text | None, Query(max_length=1024)] = None,
) -> EventPage:
    """Return what changed in models that the caller may use; admins see tokens too."""
    before = decode_numeric_page_token(page_token)
    if model_id is not None:
        caller.require("reader", model_id)
    rows = queries.event_page(
        session, caller, model_id=model_id, before=before, limit=page_size + 1
    )
    more = len(rows) > page_size
    return EventPage(
        events=[
            EventInfo(
                event_id=row.id,
                at=row.at,
                actor=row.actor,
                action=row.action,
                model_id=row.model_name,
                subject=row.subject,
                before=row.before,
                after=row.after,
            )
            for row in rows[:page_size]
        ],
        next_page_token=encode_page_token(str(rows[page_size - 1].id)) if more else None,
    )
