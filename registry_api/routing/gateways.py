"""What the registry knows of its gateways: how far they are, what they count."""

from datetime import timedelta

from sqlalchemy import select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from ai_model_format.wire import FiguresRequest, GatewayInfo, GatewayList
from registry_api.routing import clock, queries
from registry_api.routing.tables import FiguresRow

LISTED = timedelta(hours=1)

NOTED_S = 60.0
"""How often a gateway is noted as seen while nothing changes."""

# Decided here and not by what a process remembers: a gateway that starts anew says so
# to one process, and goes on with another that has heard the same revision before.
_APPLIED = text("""
    INSERT INTO gateway (id, clusters_revision, routes_revision, seen_at)
    VALUES (:gateway_id, :clusters, :routes, clock_timestamp())
    ON CONFLICT (id) DO UPDATE SET seen_at = clock_timestamp(),
        clusters_revision = CASE WHEN :clusters >= 0 THEN :clusters
                            ELSE gateway.clusters_revision END,
        routes_revision = CASE WHEN :routes >= 0 THEN :routes ELSE gateway.routes_revision END
    WHERE gateway.seen_at < clock_timestamp() - make_interval(secs => :noted_s)
        OR :clusters >= 0 AND gateway.clusters_revision != :clusters
        OR :routes >= 0 AND gateway.routes_revision != :routes
    RETURNING id
""")


def applied(
    session: Session, gateway_id: str, *, clusters: int | None = None, routes: int | None = None
) -> None:
    """Note which revision a gateway has applied, and wake whoever waits for that."""
    values = {
        "gateway_id": gateway_id,
        "clusters": -1 if clusters is None else clusters,
        "routes": -1 if routes is None else routes,
        "noted_s": NOTED_S,
    }
    if session.execute(_APPLIED, values).first() is not None:
        session.execute(
            text("SELECT pg_notify(:channel, :gateway_id)"),
            {"channel": clock.CHANNEL, "gateway_id": gateway_id},
        )


def clusters_applied(session: Session, gateway_id: str) -> int:
    """Return the revision of clusters that a gateway has applied; 0 if it has none."""
    found = session.execute(
        text("SELECT clusters_revision FROM gateway WHERE id = :id"), {"id": gateway_id}
    ).scalar()
    return int(found or 0)


def show_all(session: Session) -> GatewayList:
    """Return the gateways that asked for configuration within the hour."""
    rows = queries.gateways_since(session, clock.now(session) - LISTED)
    gateways = [
        GatewayInfo(
            gateway_id=row.id,
            clusters_revision=max(row.clusters_revision, 0),
            routes_revision=max(row.routes_revision, 0),
            seen_at=row.seen_at,
        )
        for row in rows
    ]
    return GatewayList(gateways=gateways, routing_revision=clock.current_revision(session))


def count(session: Session, gateway_id: str, said: FiguresRequest) -> None:
    """Keep what one life of a gateway has counted so far."""
    if not said.versions:
        return
    named = {(version.model_id, version.version): version for version in said.versions}
    rows = [
        {
            "gateway_id": gateway_id,
            "epoch": said.epoch,
            "model_name": version.model_id,
            "version_name": version.version,
            "requests": version.requests,
            "errors": version.errors,
            "latency_ms": version.latency_ms,
            "updated_at": clock.now(session),
        }
        for _, version in sorted(named.items())
    ]
    statement = insert(FiguresRow).values(rows)
    changing = ("requests", "errors", "latency_ms", "updated_at")
    session.execute(
        statement.on_conflict_do_update(
            index_elements=["gateway_id", "epoch", "model_name", "version_name"],
            set_={name: statement.excluded[name] for name in changing},
        )
    )


def counted(session: Session, model_id: str, version: str) -> list[FiguresRow]:
    """Return what all gateways, in all their lives, counted for a version."""
    query = select(FiguresRow).where(
        FiguresRow.model_name == model_id, FiguresRow.version_name == version
    )
    return list(session.scalars(query))
