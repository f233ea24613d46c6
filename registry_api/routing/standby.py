"""Which versions servers keep loaded though they have no share.

A way back that leads to servers which have unloaded the version is none: all
requests would fail until they have it again.
"""

from sqlalchemy import select
from sqlalchemy.orm import Session

from ai_model_format.wire import StandbyInfo
from registry_api.db.tables import ModelRow, VersionRow
from registry_api.rollout.tables import UNDER_WAY, RolloutRow
from registry_api.routing import queries
from registry_api.routing.tables import RouteRevisionRow


def standby(session: Session, model: ModelRow, current: RouteRevisionRow) -> list[StandbyInfo]:
    """Return what traffic may return to without a word of warning, by name.

    While a rollout is under way these are the versions of the split that it goes
    back to, and its own; else those of the revision before, where ``rollback`` leads.
    """
    under_way = session.execute(
        select(RolloutRow.first_revision, VersionRow)
        .join(VersionRow, VersionRow.id == RolloutRow.version_id)
        .where(RolloutRow.model_id == model.id, RolloutRow.state.in_(UNDER_WAY))
    ).first()
    back, rising = (current.revision - 1, None) if under_way is None else under_way
    goal = queries.route_at(session, model.id, back)
    digests = {share["version"]: share["manifest_digest"] for share in goal.shares} if goal else {}
    if rising is not None:
        digests[rising.name] = rising.manifest_digest
    active = {share["version"] for share in current.shares}
    return [
        StandbyInfo(version=version, manifest_digest=digest)
        for version, digest in sorted(digests.items())
        if version not in active
    ]
