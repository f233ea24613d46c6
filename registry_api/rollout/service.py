"""Begin, steer and show rollouts. What they do by themselves is in ``tick``."""

from itertools import pairwise

from sqlalchemy import select
from sqlalchemy.orm import Session

from ai_model_format.traffic import WHOLE, format_share, move
from ai_model_format.wire import (
    RollbackRequest,
    RolloutAction,
    RolloutFigures,
    RolloutInfo,
    RolloutRequest,
    RolloutState,
    RouteRequest,
    ShareRequest,
)
from registry_api.access import Caller
from registry_api.db.tables import ModelRow, VersionRow
from registry_api.events.queries import record
from registry_api.rollout.errors import (
    InvalidSteps,
    NothingToRollOutFrom,
    RolloutNotFound,
    RolloutNotUnderWay,
    RolloutUnderWay,
)
from registry_api.rollout.judge import Counted, counted_from_json, total
from registry_api.rollout.tables import UNDER_WAY, RolloutRow
from registry_api.routing import clock, gateways, queries, routes, safety


def start(session: Session, caller: Caller, model_id: str, wanted: RolloutRequest) -> RolloutInfo:
    """Take the first step at once; the registry takes the others.

    Servers that follow the route load the version because of this step. Until one
    has, its share goes to the other versions, and the rollout waits.

    Raises:
        ModelNotFound: there is no such model.
        VersionNotFound: it has no such version.
        VersionNotReady: it is still being pushed.
        NothingToRollOutFrom: no other version has traffic.
        InvalidSteps: they do not rise from the share the version has.
        RolloutUnderWay: the model has one already.
        VersionIsYanked: it is.
        JumpTooLarge: the first step gives it more than 50% at once.
        VersionNotLoaded: nobody could answer after the first step.
    """
    model = queries.model_row(session, model_id, lock=True)
    version = queries.ready_version(session, model_id, wanted.version)
    if _under_way(session, model.id):
        raise RolloutUnderWay(model_id)
    current = queries.newest_route(session, model.id)
    if current is None:
        raise NothingToRollOutFrom(model_id)
    before = routes.split_at(current)
    _check_steps(wanted.steps, before.get(version.name, 0))
    after = move(before, {version.name: wanted.steps[0]})
    safety.check_yanked([version])
    safety.check_jump(before, after)
    safety.check_answered(session, model, after)
    row = RolloutRow(
        model_id=model.id,
        version_id=version.id,
        state="running",
        steps=wanted.steps,
        step=0,
        interval_s=wanted.interval_s,
        max_error_rate=wanted.max_error_rate,
        max_p99_ms=wanted.max_p99_ms,
        min_requests=wanted.min_requests,
        route_revision=current.revision,
        first_revision=current.revision,
        baseline={},
        figures=Counted().to_json(),
        why=wanted.reason,
        started_by=caller.name,
    )
    session.add(row)
    take_step(session, caller, row, 0, why=wanted.reason)
    note(session, caller, row, "started", wanted.reason)
    return info(session, row)


def show(session: Session, model_id: str) -> RolloutInfo:
    """Return a model's newest rollout.

    Raises:
        ModelNotFound: there is no such model.
        RolloutNotFound: it never had one.
    """
    return info(session, _newest(session, model_id))


def act(session: Session, caller: Caller, model_id: str, wanted: RolloutAction) -> RolloutInfo:
    """Pause, resume, abort or promote a model's rollout.

    Raises:
        RolloutNotFound: the model never had one.
        RolloutNotUnderWay: it has ended.
        VersionIsYanked: and is to be promoted.
        VersionNotLoaded: by any live server, and is to be promoted.
    """
    row = _newest(session, model_id, lock=True)
    if row.state not in UNDER_WAY:
        raise RolloutNotUnderWay(row.state)
    match wanted.action:
        case "pause":
            row.state = "paused"
            note(session, caller, row, "paused", wanted.reason)
        case "resume":
            row.state = "running"
            begin_step(session, row)
            note(session, caller, row, "resumed", wanted.reason)
        case "abort":
            go_back(session, caller, row, "aborted", wanted.reason or "aborted")
        case "promote":
            _promote(session, caller, row, wanted.reason)
    session.flush()
    return info(session, row)


def take_step(
    session: Session,
    caller: Caller,
    row: RolloutRow,
    step: int,
    *,
    share: int | None = None,
    why: str | None = None,
) -> None:
    """Give the version the share of a step (or ``share``) and begin to watch it."""
    model, version = _model_and_version(session, row)
    share = row.steps[step] if share is None else share
    current = queries.newest_route(session, model.id)
    split = move(routes.split_at(current), {version.name: share})
    shadow = current.shadow if current else None
    request = RouteRequest(
        shares=[ShareRequest(version=name, basis_points=part) for name, part in split.items()],
        shadow=ShareRequest(version=shadow["version"], basis_points=shadow["basis_points"])
        if shadow
        else None,
        reason=f"rollout of {version.name}: {format_share(share)}" + (f", {why}" if why else ""),
        force=True,
    )
    route = routes.change(
        session, caller, model.name, request, expected=row.route_revision, kind="rollout"
    )
    row.step, row.route_revision = step, route.revision
    begin_step(session, row)


def _promote(session: Session, caller: Caller, row: RolloutRow, why: str | None) -> None:
    """Give the version everything at once, whatever the steps said, and end."""
    model, version = _model_and_version(session, row)
    safety.check_yanked([version])
    safety.check_loaded(session, model, [version.name])
    take_step(session, caller, row, len(row.steps) - 1, share=WHOLE, why=why)
    end(session, caller, row, "succeeded", why or "promoted")


def begin_step(session: Session, row: RolloutRow) -> None:
    """Count and wait from now on."""
    row.baseline = counted_now(session, row).to_json()
    row.figures = Counted().to_json()
    row.step_started_at = clock.now(session)
    row.waiting = None


def go_back(
    session: Session, caller: Caller, row: RolloutRow, state: RolloutState, why: str
) -> None:
    """Return to the split before the rollout and end it."""
    model, version = _model_and_version(session, row)
    wanted = RollbackRequest(
        to_revision=row.first_revision, reason=f"rollout of {version.name}: {why}", force=True
    )
    route = routes.rollback(session, caller, model.name, wanted, expected=row.route_revision)
    row.route_revision = route.revision
    end(session, caller, row, state, why)


def end(session: Session, caller: Caller, row: RolloutRow, state: RolloutState, why: str) -> None:
    """End a rollout and say why."""
    row.state, row.waiting, row.ended_at = state, None, clock.now(session)
    note(session, caller, row, state, why)


def note(session: Session, caller: Caller, row: RolloutRow, verb: str, why: str | None) -> None:
    """Keep the reason, here and in the history."""
    row.why = why
    session.flush()
    model, version = _model_and_version(session, row)
    split = routes.split_at(queries.newest_route(session, model.id))
    record(
        session,
        caller,
        f"rollout.{verb}",
        subject=version.name,
        model_id=model.name,
        after={
            "state": row.state,
            "basis_points": split.get(version.name, 0),
            "reason": why,
            "figures": row.figures,
        },
    )


def counted_now(session: Session, row: RolloutRow) -> Counted:
    """Return all that gateways ever counted for the version."""
    model, version = _model_and_version(session, row)
    rows = gateways.counted(session, model.name, version.name)
    return total(
        counted_from_json(
            {"requests": part.requests, "errors": part.errors, "latency_ms": part.latency_ms}
        )
        for part in rows
    )


def info(session: Session, row: RolloutRow) -> RolloutInfo:
    """Return a rollout as callers see it."""
    model, version = _model_and_version(session, row)
    counted = counted_from_json(row.figures)
    state: RolloutState = row.state  # type: ignore[assignment]  # a constraint says so
    return RolloutInfo(
        rollout_id=str(row.id),
        model_id=model.name,
        version=version.name,
        state=state,
        steps=row.steps,
        step=row.step,
        interval_s=row.interval_s,
        max_error_rate=row.max_error_rate,
        max_p99_ms=row.max_p99_ms,
        min_requests=row.min_requests,
        figures=RolloutFigures(
            requests=counted.requests,
            errors=counted.errors,
            error_rate=counted.error_rate,
            p99_ms=counted.p99_ms,
        ),
        waiting=row.waiting,
        why=row.why,
        started_at=row.started_at,
        started_by=row.started_by,
        step_started_at=row.step_started_at,
        ended_at=row.ended_at,
    )


def _check_steps(steps: list[int], now: int) -> None:
    for before, after in pairwise([now, *steps]):
        if after <= before:
            raise InvalidSteps(
                f"a step to {format_share(after)} does not rise from {format_share(before)}"
            )


def _under_way(session: Session, model_pk: int) -> RolloutRow | None:
    query = select(RolloutRow).where(
        RolloutRow.model_id == model_pk, RolloutRow.state.in_(UNDER_WAY)
    )
    return session.scalar(query)


def _newest(session: Session, model_id: str, *, lock: bool = False) -> RolloutRow:
    # The model first, as everybody who moves its route does.
    model = queries.model_row(session, model_id, lock=lock)
    query = select(RolloutRow).where(RolloutRow.model_id == model.id)
    query = query.order_by(RolloutRow.started_at.desc()).limit(1)
    row = session.scalar(query.with_for_update() if lock else query)
    if row is None:
        raise RolloutNotFound(model_id)
    return row


def _model_and_version(session: Session, row: RolloutRow) -> tuple[ModelRow, VersionRow]:
    return session.get_one(ModelRow, row.model_id), session.get_one(VersionRow, row.version_id)
