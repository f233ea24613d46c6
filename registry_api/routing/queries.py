"""SQL over leases, routes and gateways."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from registry_api.catalog.queries import resolve
from registry_api.db.tables import ModelRow, PushRow, VersionRow
from registry_api.errors import ModelNotFound, VersionNotFound
from registry_api.routing.errors import VersionNotReady
from registry_api.routing.tables import EndpointRow, GatewayRow, LoadedRow, RouteRevisionRow


def model_row(session: Session, model_id: str, *, lock: bool = False) -> ModelRow:
    """Return a model's row, locked where it is to be changed.

    Raises:
        ModelNotFound: there is none.
    """
    query = select(ModelRow).where(ModelRow.name == model_id)
    row = session.scalar(query.with_for_update() if lock else query)
    if row is None:
        raise ModelNotFound(model_id)
    return row


def ready_version(session: Session, model_id: str, ref: str) -> VersionRow:
    """Return the version that a ref means.

    Raises:
        VersionNotReady: it is still being pushed.
        VersionNotFound: the model has no such version.
    """
    version = resolve(session, model_id, ref)
    if version is not None:
        return version
    under_way = select(PushRow.state).where(
        PushRow.model_name == model_id,
        PushRow.version_name == ref,
        PushRow.state.in_(("open", "verifying")),
        PushRow.expires_at > func.now(),
    )
    state = session.scalar(under_way.order_by(PushRow.state.desc()).limit(1))
    raise VersionNotReady(ref, state) if state else VersionNotFound(model_id, ref)


# Endpoints


def lock_endpoint(session: Session, model_pk: int, address: str) -> EndpointRow | None:
    """Return an endpoint's row, locked."""
    query = select(EndpointRow).where(
        EndpointRow.model_id == model_pk, EndpointRow.address == address
    )
    return session.scalar(query.with_for_update())


def add_endpoint(session: Session, model_pk: int, address: str, *, ttl_s: int) -> EndpointRow:
    """Add an endpoint unless it is there, and return its row, locked."""
    values = {"model_id": model_pk, "address": address, "ttl_s": ttl_s, "draining": False}
    session.execute(insert(EndpointRow).values(**values).on_conflict_do_nothing())
    row = lock_endpoint(session, model_pk, address)
    assert row is not None
    return row


def endpoints_of(session: Session, model_pk: int) -> Sequence[EndpointRow]:
    """Return the endpoints of a model, by address."""
    query = select(EndpointRow).where(EndpointRow.model_id == model_pk)
    return session.scalars(query.order_by(EndpointRow.address)).all()


def loaded_by(session: Session, endpoint_pk: int) -> dict[int, LoadedRow]:
    """Return what an endpoint has or had loaded, by the version's key."""
    rows = session.scalars(select(LoadedRow).where(LoadedRow.endpoint_id == endpoint_pk))
    return {row.version_id: row for row in rows}


def loaded_versions(
    session: Session, endpoint_pks: Sequence[int]
) -> dict[int, list[tuple[LoadedRow, VersionRow]]]:
    """Return what each endpoint has loaded now, by the version's name."""
    rows = session.execute(
        select(LoadedRow, VersionRow)
        .join(VersionRow, VersionRow.id == LoadedRow.version_id)
        .where(LoadedRow.endpoint_id.in_(endpoint_pks), LoadedRow.until.is_(None))
        .order_by(VersionRow.name)
    )
    found: dict[int, list[tuple[LoadedRow, VersionRow]]] = {}
    for loaded, version in rows:
        found.setdefault(loaded.endpoint_id, []).append((loaded, version))
    return found


def live_counts(session: Session, model_pk: int) -> dict[str, int]:
    """Return how many live servers have each version loaded, with the right digest."""
    rows = session.execute(
        select(VersionRow.name, func.count())
        .join(LoadedRow, LoadedRow.version_id == VersionRow.id)
        .join(EndpointRow, EndpointRow.id == LoadedRow.endpoint_id)
        .where(
            EndpointRow.model_id == model_pk,
            EndpointRow.gone_at.is_(None),
            EndpointRow.draining.is_(False),
            LoadedRow.until.is_(None),
            LoadedRow.digest == VersionRow.manifest_digest,
        )
        .group_by(VersionRow.name)
    )
    return {name: int(number) for name, number in rows}


# Routes


def newest_route(session: Session, model_pk: int) -> RouteRevisionRow | None:
    """Return the route that holds."""
    query = select(RouteRevisionRow).where(RouteRevisionRow.model_id == model_pk)
    return session.scalar(query.order_by(RouteRevisionRow.revision.desc()).limit(1))


def route_at(session: Session, model_pk: int, revision: int) -> RouteRevisionRow | None:
    """Return the route at one revision."""
    return session.get(RouteRevisionRow, (model_pk, revision))


def route_page(
    session: Session, model_pk: int, *, before: int | None, limit: int
) -> Sequence[RouteRevisionRow]:
    """Return revisions below ``before``, newest first."""
    query = select(RouteRevisionRow).where(RouteRevisionRow.model_id == model_pk)
    if before is not None:
        query = query.where(RouteRevisionRow.revision < before)
    return session.scalars(query.order_by(RouteRevisionRow.revision.desc()).limit(limit)).all()


# Gateways


def gateways_since(session: Session, moment: datetime) -> Sequence[GatewayRow]:
    """Return the gateways seen since then, by id."""
    query = select(GatewayRow).where(GatewayRow.seen_at >= moment)
    return session.scalars(query.order_by(GatewayRow.id)).all()
