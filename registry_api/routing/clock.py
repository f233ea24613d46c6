"""The revision of everything gateways are told, and who is cut off for silence.

Time is Postgres's own, so that several API processes agree on it.
"""

import logging
from datetime import datetime, timedelta

from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session

from registry_api.access import Caller
from registry_api.events.queries import record
from registry_api.routing.tables import LeaseWatchRow, RoutingClockRow

CHANNEL = "routing"
"""Postgres channel that tells waiting gateways of a new revision."""
AWAY_S = 3.0
"""Without a tick for so long, nobody was there to hear servers."""
RESTART_S = 1.5
"""Without a tick for so long, a process that comes up had no other one beside it."""
LINGER_S = 60.0
"""How long gateways keep the clusters of what is gone: routes are taken back first."""
KEPT_S = 3600.0
"""How long a lease that ended is still listed."""

logger = logging.getLogger("registry_api.routing")

SYSTEM = Caller(None, "registry", "admin", ("*",))

_LAPSE = text("""
    UPDATE endpoint SET gone_at = clock_timestamp()
    FROM lease_watch, model
    WHERE model.id = endpoint.model_id AND endpoint.gone_at IS NULL
      AND endpoint.last_beat_at + make_interval(secs => endpoint.ttl_s) < clock_timestamp()
      AND lease_watch.up_since + make_interval(secs => 2 * endpoint.ttl_s) < clock_timestamp()
    RETURNING model.name, endpoint.address, endpoint.last_beat_at
""")
_FORGET = text("""
    DELETE FROM endpoint WHERE gone_at < clock_timestamp() - make_interval(secs => :kept_s)
""")


def bump(session: Session) -> int:
    """Number a change of what gateways are told, and wake those who wait, at commit."""
    revision = session.scalar(
        update(RoutingClockRow)
        .values(revision=RoutingClockRow.revision + 1)
        .returning(RoutingClockRow.revision)
    )
    session.execute(select(func.pg_notify(CHANNEL, str(revision))))
    return revision or 0


def current_revision(session: Session) -> int:
    """Return the revision that holds now."""
    return session.scalar(select(RoutingClockRow.revision)) or 0


def now(session: Session) -> datetime:
    """Return the time of Postgres, now and not at the transaction's start."""
    moment: datetime = session.execute(select(func.clock_timestamp())).scalar_one()
    return moment


def came_back(session: Session) -> None:
    """Say that an API process came up: servers may not have been heard while it was away.

    Where another process ticked all along they were heard, and nobody gets more time.
    """
    moment = now(session)
    session.execute(
        update(LeaseWatchRow)
        .where(LeaseWatchRow.ticked_at < moment - timedelta(seconds=RESTART_S))
        .values(ticked_at=moment, up_since=moment)
    )


def tick(session: Session) -> int:
    """Cut off the servers that fell silent. Call it every half second or so, in any process.

    Servers have two TTLs after the registry was away, whether for a restart, a
    network or a database that was down: their silence proves nothing then.

    Returns:
        How many were cut off; 0 also where another process is at it.
    """
    watch = session.scalar(select(LeaseWatchRow).with_for_update(skip_locked=True))
    if watch is None:
        return 0
    moment = now(session)
    if (moment - watch.ticked_at).total_seconds() > AWAY_S:
        watch.up_since = moment
    watch.ticked_at = moment
    session.flush()
    lapsed = session.execute(_LAPSE).all()
    for model_id, address, last_beat_at in lapsed:
        _record_lapse(session, model_id, address, last_beat_at)
    if lapsed:
        bump(session)
    session.execute(_FORGET, {"kept_s": KEPT_S})
    return len(lapsed)


def _record_lapse(session: Session, model_id: str, address: str, last_beat_at: datetime) -> None:
    logger.warning("endpoint %s of %s fell silent", address, model_id)
    before = {"last_beat_at": last_beat_at.isoformat()}
    record(session, SYSTEM, "endpoint.lapsed", subject=address, model_id=model_id, before=before)
