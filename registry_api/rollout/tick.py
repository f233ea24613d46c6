"""What the registry does about rollouts by itself, every half second, in any process.

A rollout's row lock lets one process act; what it decides and what it does are
one transaction, so that a process may die anywhere.
"""

import logging

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry_api.db.tables import ModelRow, VersionRow
from registry_api.rollout import service
from registry_api.rollout.judge import Rules, Verdict, counted_from_json, judge
from registry_api.rollout.tables import UNDER_WAY, RolloutRow
from registry_api.routing import clock, queries

logger = logging.getLogger("registry_api.rollout")


def tick(session: Session) -> None:
    """Look at every rollout under way that no other process looks at."""
    under_way = select(RolloutRow).where(RolloutRow.state.in_(UNDER_WAY))
    locked = under_way.order_by(RolloutRow.id).with_for_update(skip_locked=True)
    for row in session.scalars(locked).all():
        try:
            with session.begin_nested():
                _advance(session, row)
        except Exception:
            # One rollout that fails must not keep the others from going on.
            logger.exception("rollout %s could not go on", row.id)


def _advance(session: Session, row: RolloutRow) -> None:
    model = queries.model_row(session, session.get_one(ModelRow, row.model_id).name, lock=True)
    if _was_taken_over(session, row, model) or row.state == "paused":
        return
    version = session.get_one(VersionRow, row.version_id, populate_existing=True)
    if version.yanked_at is not None:
        service.go_back(session, clock.SYSTEM, row, "rolled_back", "the version was yanked")
        return
    counted = service.counted_now(session, row).since(counted_from_json(row.baseline))
    row.figures = counted.to_json()
    elapsed_s = (clock.now(session) - row.step_started_at).total_seconds()
    _act(session, row, version, judge(_rules(row), counted, elapsed_s=elapsed_s))


def _act(session: Session, row: RolloutRow, version: VersionRow, verdict: Verdict) -> None:
    last = row.step == len(row.steps) - 1
    if verdict.decision == "roll_back":
        service.go_back(session, clock.SYSTEM, row, "rolled_back", verdict.why)
    elif verdict.decision == "wait":
        row.waiting = verdict.why
    elif last:
        service.end(session, clock.SYSTEM, row, "succeeded", verdict.why)
    elif not queries.live_counts(session, row.model_id).get(version.name):
        row.waiting = "no live server has the version loaded"
    else:
        service.take_step(session, clock.SYSTEM, row, row.step + 1, why=verdict.why)
        service.note(session, clock.SYSTEM, row, "advanced", verdict.why)


def _was_taken_over(session: Session, row: RolloutRow, model: ModelRow) -> bool:
    """End a rollout whose route somebody else has moved since, and leave theirs alone."""
    newest = queries.newest_route(session, model.id)
    if newest is None or newest.revision == row.route_revision:
        return False
    why = f"{newest.created_by} changed the route (revision {newest.revision})"
    service.end(session, clock.SYSTEM, row, "aborted", why)
    return True


def _rules(row: RolloutRow) -> Rules:
    return Rules(row.interval_s, row.max_error_rate, row.max_p99_ms, row.min_requests)
