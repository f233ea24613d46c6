"""Decide about routes: which share of a model's requests each version gets.

Every change adds a revision; the one that holds is the newest. Two people who
start from the same revision cannot both win.
"""

from collections.abc import Mapping, Sequence

from sqlalchemy.orm import Session

from ai_model_format.wire import (
    RollbackRequest,
    RouteChangeKind,
    RouteHistory,
    RouteInfo,
    RouteRequest,
    ShareInfo,
)
from registry_api.access import Caller
from registry_api.catalog.queries import find_version
from registry_api.db.tables import ModelRow, VersionRow
from registry_api.errors import VersionNotFound
from registry_api.events.queries import record
from registry_api.routing import clock, queries, safety
from registry_api.routing.errors import InvalidRoute, RevisionNotFound
from registry_api.routing.standby import standby
from registry_api.routing.tables import RouteRevisionRow
from registry_api.xds.cohorts import reassign
from registry_api.xds.state import Run

Share = dict[str, object]


def show(session: Session, model_id: str) -> RouteInfo:
    """Return the route that holds; revision 0 without shares where there is none yet.

    Raises:
        ModelNotFound: there is no such model.
    """
    model = queries.model_row(session, model_id)
    newest = queries.newest_route(session, model.id)
    if newest is None:
        return RouteInfo(model_id=model_id, revision=0, shares=[])
    return _as_it_holds(session, model, newest)


def history(
    session: Session, model_id: str, *, before: int | None = None, limit: int = 100
) -> RouteHistory:
    """Return the revisions of a route, newest first.

    Raises:
        ModelNotFound: there is no such model.
    """
    model = queries.model_row(session, model_id)
    rows = queries.route_page(session, model.id, before=before, limit=limit)
    return RouteHistory(revisions=[route_info(model, row, {}) for row in rows])


def change(
    session: Session,
    caller: Caller,
    model_id: str,
    wanted: RouteRequest,
    *,
    expected: int | None,
    kind: RouteChangeKind = "set",
) -> RouteInfo:
    """Split a model's traffic anew.

    Args:
        session: one transaction; a dry run rolls it back.
        caller: who wants it.
        model_id: whose traffic.
        wanted: the whole new split.
        expected: revision that the caller saw; ``None`` to take whatever is there.
        kind: what the history calls it.

    Raises:
        ModelNotFound: there is no such model.
        VersionNotFound: it has no such version.
        VersionNotReady: it is still being pushed.
        InvalidRoute: the shares are no split.
        RouteChanged: the route is at another revision.
        VersionIsYanked: and not forced.
        VersionNotLoaded: by any live server, and not forced.
        JumpTooLarge: a version would gain more than 50%, and it is not forced.
    """
    model = queries.model_row(session, model_id, lock=True)
    current = queries.newest_route(session, model.id)
    versions = [queries.ready_version(session, model_id, share.version) for share in wanted.shares]
    split = {
        version.name: share.basis_points
        for version, share in zip(versions, wanted.shares, strict=True)
    }
    if len(split) != len(wanted.shares):
        raise InvalidRoute("a version is named twice; give each one share")
    shadowing = _shadowing(session, model_id, wanted)
    shadow = _share(shadowing, wanted.shadow.basis_points) if shadowing and wanted.shadow else None
    shares = [_share(version, split[version.name]) for version in versions]
    if current is not None and _is_repeat(current, caller, shares, shadow, wanted.reason, expected):
        return _as_it_holds(session, model, current)
    safety.check_revision(current, expected)
    safety.check_shares(split)
    if not wanted.force:
        safety.check_safe(session, model, versions, split_at(current), split)
        if shadowing and shadow and _gains_copies(current, shadow):
            safety.check_yanked([shadowing])
            safety.check_loaded(session, model, [shadowing.name])
    ring = tuple(Run(*run) for run in (current.cohorts if current else ()))
    next_row = RouteRevisionRow(
        shares=shares,
        cohorts=[[run.version, run.width] for run in reassign(ring, split)],
        shadow=shadow,
        kind=kind,
        reason=wanted.reason,
    )
    return _add(session, caller, model, current, next_row)


def rollback(
    session: Session,
    caller: Caller,
    model_id: str,
    wanted: RollbackRequest,
    *,
    expected: int | None = None,
    kind: RouteChangeKind = "rollback",
) -> RouteInfo:
    """Go back to the split of the revision before, or of the one that is named.

    It returns exactly: the same shares, and the same users on the same version.
    Sent again with the same ``expected``, because its answer was lost, it stays there.

    Raises:
        ModelNotFound: there is no such model.
        RouteChanged: the route is at another revision than ``expected``.
        RevisionNotFound: there is nothing to go back to.
        VersionIsYanked: and not forced.
        VersionNotLoaded: by any live server, and not forced.
    """
    model = queries.model_row(session, model_id, lock=True)
    current = queries.newest_route(session, model.id)
    seen = expected if expected is not None else current.revision if current else 0
    target = wanted.to_revision or seen - 1
    goal = queries.route_at(session, model.id, target)
    reason = wanted.reason or f"back to revision {target}"
    if (
        current is not None
        and goal is not None
        and current.kind == kind
        and _is_repeat(current, caller, goal.shares, goal.shadow, reason, expected)
    ):
        return _as_it_holds(session, model, current)
    safety.check_revision(current, expected)
    if current is None or goal is None:
        raise RevisionNotFound(model_id, target)
    if not wanted.force:
        names = [str(share["version"]) for share in goal.shares]
        rows = [_existing(session, model, name) for name in names]
        safety.check_yanked(rows)
        safety.check_loaded(session, model, names)
    next_row = RouteRevisionRow(
        shares=goal.shares,
        cohorts=goal.cohorts,
        shadow=goal.shadow,
        kind=kind,
        reason=reason,
    )
    return _add(session, caller, model, current, next_row)


def route_info(model: ModelRow, row: RouteRevisionRow, live: Mapping[str, int]) -> RouteInfo:
    """Return a route as callers see it. Pure."""
    kind: RouteChangeKind = row.kind  # type: ignore[assignment]  # only this module writes it
    return RouteInfo(
        model_id=model.name,
        revision=row.revision,
        shares=[_share_info(share, live) for share in row.shares],
        shadow=_share_info(row.shadow, live) if row.shadow else None,
        kind=kind,
        reason=row.reason,
        created_at=row.created_at,
        created_by=row.created_by,
        routing_revision=row.routing_revision,
    )


def _as_it_holds(session: Session, model: ModelRow, row: RouteRevisionRow) -> RouteInfo:
    """Return the newest revision as callers see it, with who serves it and what stands by."""
    info = route_info(model, row, queries.live_counts(session, model.id))
    return info.model_copy(update={"standby": standby(session, model, row)})


def split_at(row: RouteRevisionRow | None) -> dict[str, int]:
    """Return the shares of a revision in basis points; empty where there is none. Pure."""
    return {share["version"]: share["basis_points"] for share in row.shares} if row else {}


def _share_info(share: Mapping[str, object], live: Mapping[str, int]) -> ShareInfo:
    info = ShareInfo.model_validate(share)
    return info.model_copy(update={"live_endpoints": live.get(info.version, 0)})


def _share(version: VersionRow, basis_points: int) -> Share:
    return {
        "version": version.name,
        "manifest_digest": version.manifest_digest,
        "basis_points": basis_points,
    }


def _shadowing(session: Session, model_id: str, wanted: RouteRequest) -> VersionRow | None:
    if wanted.shadow is None:
        return None
    return queries.ready_version(session, model_id, wanted.shadow.version)


def _gains_copies(current: RouteRevisionRow | None, shadow: Share) -> bool:
    """Say whether a version is to get more copies than before. Pure.

    One that dies is let be, so that it keeps nobody from moving the route.
    """
    before = current.shadow if current else None
    if before is None or before["version"] != shadow["version"]:
        return True
    return bool(before["basis_points"] < shadow["basis_points"])


def _existing(session: Session, model: ModelRow, name: str) -> VersionRow:
    version = find_version(session, model.id, name)
    if version is None:
        raise VersionNotFound(model.name, name)
    return version


def _is_repeat(
    current: RouteRevisionRow,
    caller: Caller,
    shares: Sequence[Share],
    shadow: Share | None,
    reason: str | None,
    expected: int | None,
) -> bool:
    """Say whether this very change was made already, and only its answer was lost."""
    return (
        expected is not None
        and current.revision == expected + 1
        and current.created_by == caller.name
        and current.shares == list(shares)
        and current.shadow == shadow
        and current.reason == reason
    )


def _add(
    session: Session,
    caller: Caller,
    model: ModelRow,
    current: RouteRevisionRow | None,
    row: RouteRevisionRow,
) -> RouteInfo:
    """Make ``row`` the newest revision, number it, tell gateways and history."""
    row.model_id = model.id
    row.revision = current.revision + 1 if current else 1
    row.routing_revision = clock.bump(session)
    row.created_by = caller.name
    session.add(row)
    session.flush()
    record(
        session,
        caller,
        "route.changed",
        subject=f"revision {row.revision}",
        model_id=model.name,
        before=_summary(current),
        after=_summary(row),
    )
    return _as_it_holds(session, model, row)


def _summary(row: RouteRevisionRow | None) -> dict[str, object] | None:
    if row is None:
        return None
    return {
        "revision": row.revision,
        "shares": split_at(row),
        "shadow": row.shadow,
        "kind": row.kind,
        "reason": row.reason,
    }
