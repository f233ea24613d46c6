"""Decide about endpoints: inference servers that say what they have loaded, under a lease."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from ai_model_format.wire import EndpointInfo, EndpointList, EndpointRequest, LoadedInfo
from registry_api.access import Caller
from registry_api.catalog.queries import find_version
from registry_api.db.tables import ModelRow, VersionRow
from registry_api.errors import VersionNotFound
from registry_api.events.queries import record
from registry_api.routing import clock, queries
from registry_api.routing.errors import EndpointNotFound
from registry_api.routing.tables import EndpointRow, LoadedRow


def beat(
    session: Session, caller: Caller, model_id: str, address: str, said: EndpointRequest
) -> EndpointInfo:
    """Register a server, or hear that it lives and what it has loaded now.

    Gateways hear of it only where something changed.

    Raises:
        ModelNotFound: there is no such model.
        VersionNotFound: the server says it has loaded a version that does not exist.
    """
    model = queries.model_row(session, model_id)
    versions = {_version(session, model, item.version).id: item for item in said.versions}
    row = queries.add_endpoint(session, model.id, address, ttl_s=said.ttl_s)
    before = info(session, model, [row])[0]
    digests = {pk: item.digest for pk, item in versions.items()}
    changed = [_load(session, row, digests), _revive(row), row.draining != said.draining]
    row.last_beat_at = clock.now(session)
    row.ttl_s, row.draining = said.ttl_s, said.draining
    session.flush()
    after = info(session, model, [row])[0]
    if any(changed) or before.registered_at == before.last_beat_at:
        clock.bump(session)
        _record_change(session, caller, before, after)
    return after


def remove(session: Session, caller: Caller, model_id: str, address: str) -> None:
    """Take a server out at once; requests under way end well.

    Raises:
        ModelNotFound: there is no such model.
        EndpointNotFound: it has no such server.
    """
    model = queries.model_row(session, model_id)
    row = queries.lock_endpoint(session, model.id, address)
    if row is None:
        raise EndpointNotFound(model_id, address)
    if row.gone_at is None:
        before = info(session, model, [row])[0]
        row.gone_at = clock.now(session)
        session.flush()
        clock.bump(session)
        _record_change(session, caller, before, info(session, model, [row])[0])


def show_all(session: Session, model_id: str) -> EndpointList:
    """Return the servers of a model, also those that left within the hour.

    Raises:
        ModelNotFound: there is no such model.
    """
    model = queries.model_row(session, model_id)
    rows = queries.endpoints_of(session, model.id)
    return EndpointList(endpoints=info(session, model, rows))


def info(session: Session, model: ModelRow, rows: Sequence[EndpointRow]) -> list[EndpointInfo]:
    """Return endpoints as callers see them."""
    loaded = queries.loaded_versions(session, [row.id for row in rows])
    return [
        EndpointInfo(
            model_id=model.name,
            address=row.address,
            state="gone" if row.gone_at else "draining" if row.draining else "live",
            ttl_s=row.ttl_s,
            registered_at=row.registered_at,
            last_beat_at=row.last_beat_at,
            versions=[_loaded_info(*pair) for pair in loaded.get(row.id, [])],
        )
        for row in rows
    ]


def _loaded_info(loaded: LoadedRow, version: VersionRow) -> LoadedInfo:
    return LoadedInfo(
        version=version.name,
        digest=loaded.digest,
        since=loaded.since,
        matches=loaded.digest == version.manifest_digest,
    )


def _version(session: Session, model: ModelRow, name: str) -> VersionRow:
    version = find_version(session, model.id, name)
    if version is None:
        raise VersionNotFound(model.name, name)
    return version


def _load(session: Session, row: EndpointRow, digests: dict[int, str]) -> bool:
    """Note what the server has loaded; say whether that is something else than before."""
    known = queries.loaded_by(session, row.id)
    now = clock.now(session)
    changed = False
    for version_pk, loaded in known.items():
        if version_pk not in digests and loaded.until is None:
            loaded.until, changed = now, True
    for version_pk, digest in digests.items():
        before = known.get(version_pk)
        if before is None:
            session.add(LoadedRow(endpoint_id=row.id, version_id=version_pk, digest=digest))
        elif before.until is None and before.digest == digest:
            continue
        else:
            before.since, before.until, before.digest = now, None, digest
        changed = True
    return changed


def _revive(row: EndpointRow) -> bool:
    """Take a server back that was gone; say whether it was."""
    was_gone = row.gone_at is not None
    row.gone_at = None
    return was_gone


def _record_change(
    session: Session, caller: Caller, before: EndpointInfo, after: EndpointInfo
) -> None:
    actions = {"gone": "endpoint.removed", "draining": "endpoint.draining"}
    record(
        session,
        caller,
        actions.get(after.state, "endpoint.changed"),
        subject=after.address,
        model_id=after.model_id,
        before=_summary(before),
        after=_summary(after),
    )


def _summary(endpoint: EndpointInfo) -> dict[str, object]:
    versions = {loaded.version: loaded.digest for loaded in endpoint.versions}
    return {"state": endpoint.state, "versions": versions}
