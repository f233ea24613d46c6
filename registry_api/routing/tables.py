"""Tables of traffic: leases, the history of routes, gateways.

A route is never changed: a new revision is added, and the newest holds. A
lease is kept a while after its end, so that gateways are told to forget a
server before they are told to forget its cluster.
"""

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, Text
from sqlalchemy.orm import Mapped, mapped_column

from registry_api.db.base import (
    ByteOrderedText,
    Created,
    DigestColumn,
    Id,
    Json,
    Moment,
    Name,
    Row,
    Words,
)


class RoutingClockRow(Row):
    """The revision of everything that gateways are told; one row.

    Its lock is held until commit, so that revisions become visible in order.
    """

    __tablename__ = "routing_clock"
    __table_args__ = (CheckConstraint("id = 1", name="one_row"),)
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    revision: Mapped[int] = mapped_column(BigInteger)


class LeaseWatchRow(Row):
    """Since when silence of a server means something; one row.

    ``ticked_at`` shows that some API process was there to hear it, ``up_since``
    when one came back last.
    """

    __tablename__ = "lease_watch"
    __table_args__ = (CheckConstraint("id = 1", name="one_row"),)
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    ticked_at: Mapped[Created]
    up_since: Mapped[Created]


class EndpointRow(Row):
    """An inference server under a lease, which ends ``ttl_s`` after its last beat."""

    __tablename__ = "endpoint"
    __table_args__ = (
        Index("uq_endpoint_model_id_address", "model_id", "address", unique=True),
        CheckConstraint("ttl_s > 0", name="ttl_positive"),
    )
    id: Mapped[Id]
    model_id: Mapped[int] = mapped_column(ForeignKey("model.id"))
    address: Mapped[Name]
    ttl_s: Mapped[int]
    draining: Mapped[bool]
    registered_at: Mapped[Created]
    last_beat_at: Mapped[Created]
    gone_at: Mapped[Moment | None]


class LoadedRow(Row):
    """A version that a server says it has loaded; ``until`` when it no longer says so."""

    __tablename__ = "loaded"
    __table_args__ = (Index("ix_loaded_version_id", "version_id"),)
    endpoint_id: Mapped[int] = mapped_column(
        ForeignKey("endpoint.id", ondelete="CASCADE"), primary_key=True
    )
    version_id: Mapped[int] = mapped_column(ForeignKey("version.id"), primary_key=True)
    digest: Mapped[DigestColumn]
    since: Mapped[Created]
    until: Mapped[Moment | None]


class RouteRevisionRow(Row):
    """A model's split of traffic at one revision. A trigger refuses to change or delete it.

    ``shares`` is a list of (version, digest, basis_points) that sum to 10,000;
    ``cohorts`` the hash ring as pairs (version, width).
    """

    __tablename__ = "route_revision"
    __table_args__ = (
        CheckConstraint("basis_points_of(shares) = 10000", name="shares_are_whole"),
        CheckConstraint("revision > 0", name="revision_positive"),
    )
    model_id: Mapped[int] = mapped_column(ForeignKey("model.id"), primary_key=True)
    revision: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    shares: Mapped[Json]
    cohorts: Mapped[Json]
    shadow: Mapped[Json | None]
    kind: Mapped[Words]
    reason: Mapped[Words | None]
    routing_revision: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[Created]
    created_by: Mapped[Words]


class GatewayRow(Row):
    """A gateway, and which revision of clusters and routes it has applied."""

    __tablename__ = "gateway"
    id: Mapped[str] = mapped_column(Text, primary_key=True)
    clusters_revision: Mapped[int] = mapped_column(BigInteger)
    routes_revision: Mapped[int] = mapped_column(BigInteger)
    seen_at: Mapped[Created]


class FiguresRow(Row):
    """What one life of a gateway counted for one version; never falls."""

    __tablename__ = "figures"
    gateway_id: Mapped[str] = mapped_column(Text, primary_key=True)
    epoch: Mapped[str] = mapped_column(Text, primary_key=True)
    model_name: Mapped[str] = mapped_column(ByteOrderedText, primary_key=True)
    version_name: Mapped[str] = mapped_column(ByteOrderedText, primary_key=True)
    requests: Mapped[int] = mapped_column(BigInteger)
    errors: Mapped[int] = mapped_column(BigInteger)
    latency_ms: Mapped[Json]
    updated_at: Mapped[Created]
