"""What the registry does about rollouts by itself, every half second, in any process.

Each rollout is a transaction of its own: what is decided and what is done about
it are one, so that a process may die anywhere. The locks of its model and of
itself let one process act, and nobody waits for them: whoever has them now, a
push that is published or a person who moves the route, is soon done.
"""

import logging
import uuid

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from registry_api.db.session import transaction
from registry_api.db.tables import ModelRow, VersionRow
from registry_api.rollout import service
from registry_api.rollout.judge import Rules, Verdict, counted_from_json, judge
from registry_api.rollout.tables import UNDER_WAY, RolloutRow
from registry_api.routing import clock, queries

logger = logging.getLogger("registry_api.rollout")


def tick(engine: Engine) -> None:
    """Look at every rollout under way whose model nobody else is changing now."""
    with transaction(engine) as session:
        under_way = select(RolloutRow.id).where(RolloutRow.state.in_(UNDER_WAY))
        rollout_ids = session.scalars(under_way.order_by(RolloutRow.id)).all()
    for rollout_id in rollout_ids:
        try:
            with transaction(engine) as session:
                _look_at(session, rollout_id)
        except Exception:
            # One rollout that fails must not keep the others from going on.
            logger.exception("rollout %s could not go on", rollout_id)


def _look_at(session: Session, rollout_id: uuid.UUID) -> None:
    """Advance a rollout, or leave it to the next tick where its rows are locked."""
    of_rollout = select(RolloutRow.model_id).where(RolloutRow.id == rollout_id).scalar_subquery()
    model = session.scalar(
        select(ModelRow).where(ModelRow.id == of_rollout).with_for_update(skip_locked=True)
    )
    if model is None:
        return
    still = (RolloutRow.id == rollout_id, RolloutRow.state.in_(UNDER_WAY))
    row = session.scalar(select(RolloutRow).where(*still).with_for_update(skip_locked=True))
    if row is not None:
        _advance(session, row, model)


def _advance(session: Session, row: RolloutRow, model: ModelRow) -> None:
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
    is_loaded = version.name in queries.live_counts(session, row.model_id)
    if verdict.decision == "roll_back":
        service.go_back(session, clock.SYSTEM, row, "rolled_back", verdict.why)
    elif not is_loaded:
        row.waiting = "no live server has the version loaded"
    elif verdict.decision == "wait":
        row.waiting = verdict.why
    elif last:
        service.end(session, clock.SYSTEM, row, "succeeded", verdict.why)
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
