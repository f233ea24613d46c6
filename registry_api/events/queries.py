"""Write and read the history."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from registry_api.access import Caller
from registry_api.db.tables import EventRow


def record(
    session: Session,
    caller: Caller,
    action: str,
    *,
    subject: str,
    model_id: str | None = None,
    before: Any = None,
    after: Any = None,
) -> None:
    """Add a line to the history, in the transaction of the change itself.

    Args:
        session: of the change.
        caller: who did it.
        action: ``noun.verb``, the verb in the past: ``alias.moved``.
        subject: what was changed: a version, an alias, a token.
        model_id: the model it belongs to, where it belongs to one.
        before: what it was, as JSON; ``None`` for something new.
        after: what it is now; ``None`` for something that is gone.
    """
    session.add(
        EventRow(
            actor=caller.name,
            action=action,
            model_name=model_id,
            subject=subject,
            before=before,
            after=after,
        )
    )


def event_page(
    session: Session, caller: Caller, *, model_id: str | None, before: int | None, limit: int
) -> Sequence[EventRow]:
    """Return lines with ids below ``before``, newest first; those of models the caller may use."""
    query = select(EventRow).order_by(EventRow.id.desc()).limit(limit)
    if model_id is not None:
        query = query.where(EventRow.model_name == model_id)
    if before is not None:
        query = query.where(EventRow.id < before)
    if caller.role != "admin":
        query = query.where(EventRow.model_name.is_not(None))
    if not caller.sees_all:
        query = query.where(or_(*(EventRow.model_name.like(glob) for glob in caller.patterns)))
    return session.scalars(query).all()
