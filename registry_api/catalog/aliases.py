"""Decide about aliases: movable names, moved by one at a time and never in silence."""

from datetime import UTC, datetime

from sqlalchemy.orm import Session

from ai_model_format.digest import Digest
from ai_model_format.wire import AliasInfo
from registry_api.access import Caller
from registry_api.catalog import queries
from registry_api.db.tables import AliasRow, ModelRow, VersionRow
from registry_api.errors import (
    AliasNotFound,
    ModelNotFound,
    NameConflict,
    PreconditionFailed,
    VersionNotFound,
)
from registry_api.events.queries import record


def etag_of(row: AliasRow) -> str:
    """Return what names this state of an alias: its moves and where it points."""
    return f'"{row.revision}-{row.version_id}"'


def check_free_for_alias(session: Session, model: ModelRow, alias: str) -> None:
    """Insist that no version has the name.

    Raises:
        NameConflict: one has.
    """
    if queries.find_version(session, model.id, alias):
        raise NameConflict(
            f"{alias!r} is a version of {model.name!r}, so no alias can be called so"
        )


def point(
    session: Session, caller: Caller, model: ModelRow, alias: str, version: VersionRow
) -> AliasRow:
    """Point an alias at a version of the locked ``model``; the same again changes nothing.

    Raises:
        NameConflict: a version has the alias's name.
    """
    check_free_for_alias(session, model, alias)
    row = queries.find_alias(session, model.id, alias)
    if row is not None and row.version_id == version.id:
        return row
    before = None
    if row is None:
        row = AliasRow(model_id=model.id, name=alias, revision=0)
        session.add(row)
    else:
        old = session.get_one(VersionRow, row.version_id)
        before = {"version": old.name, "manifest_digest": old.manifest_digest}
    row.version_id = version.id
    row.revision += 1
    row.updated_by = caller.name
    row.updated_at = datetime.now(UTC)
    record(
        session,
        caller,
        "alias.moved" if before else "alias.created",
        subject=alias,
        model_id=model.name,
        before=before,
        after={"version": version.name, "manifest_digest": version.manifest_digest},
    )
    session.flush()
    return row


def put(
    session: Session,
    caller: Caller,
    model_id: str,
    alias: str,
    *,
    ref: str,
    if_match: str | None,
    if_none_match: str | None,
) -> tuple[AliasInfo, str]:
    """Point an alias at the version that ``ref`` means, if it is still what the caller saw.

    Where it points there already there is nothing to change, whatever the conditions: they
    may be those of a first try whose answer got lost (RFC 9110, 13.1.1).

    Raises:
        ModelNotFound: there is no such model.
        VersionNotFound: it has no such version.
        PreconditionFailed: the alias is another than ``if_match``, or is there at all.
        NameConflict: a version has the alias's name.
    """
    model = queries.lock_model(session, model_id)
    if model is None:
        raise ModelNotFound(model_id)
    version = queries.resolve(session, model_id, ref)
    if version is None:
        raise VersionNotFound(model_id, ref)
    row = queries.find_alias(session, model.id, alias)
    if row is None or row.version_id != version.id:
        _check_conditions(row, if_match, if_none_match)
    row = point(session, caller, model, alias, version)
    return info(model, row, version.name, version.manifest_digest), etag_of(row)


def show(session: Session, model_id: str, alias: str) -> tuple[AliasInfo, str]:
    """Return an alias and its ETag.

    Raises:
        ModelNotFound: there is no such model.
        AliasNotFound: it has no such alias.
    """
    model = queries.find_model(session, model_id)
    if model is None:
        raise ModelNotFound(model_id)
    row = queries.find_alias(session, model.id, alias)
    if row is None:
        raise AliasNotFound(f"model {model_id!r} has no alias {alias!r}")
    version = session.get_one(VersionRow, row.version_id)
    return info(model, row, version.name, version.manifest_digest), etag_of(row)


def remove(
    session: Session, caller: Caller, model_id: str, alias: str, *, if_match: str | None
) -> None:
    """Take an alias away.

    Raises:
        AliasNotFound: there is no such alias.
        PreconditionFailed: it is another than ``if_match``.
    """
    model = queries.lock_model(session, model_id)
    row = queries.find_alias(session, model.id, alias) if model else None
    if model is None or row is None:
        raise AliasNotFound(f"model {model_id!r} has no alias {alias!r}")
    _check_conditions(row, if_match, None)
    version = session.get_one(VersionRow, row.version_id)
    record(
        session,
        caller,
        "alias.removed",
        subject=alias,
        model_id=model_id,
        before={"version": version.name, "manifest_digest": version.manifest_digest},
    )
    session.delete(row)


def info(model: ModelRow, row: AliasRow, version: str, digest: Digest) -> AliasInfo:
    """Return an alias as callers see it; ``version`` and its manifest's ``digest``. Pure."""
    return AliasInfo(
        alias=row.name,
        model_id=model.name,
        version=version,
        manifest_digest=digest,
        updated_at=row.updated_at,
        updated_by=row.updated_by,
    )


def _check_conditions(
    row: AliasRow | None, if_match: str | None, if_none_match: str | None
) -> None:
    if if_match is not None:
        wanted = [tag.strip() for tag in if_match.split(",")]
        if row is None or ("*" not in wanted and etag_of(row) not in wanted):
            raise PreconditionFailed("the alias is not what If-Match says; look at it again")
    if if_none_match is not None and row is not None:
        tags = [tag.strip() for tag in if_none_match.split(",")]
        if "*" in tags or etag_of(row) in tags:
            raise PreconditionFailed("the alias is there already")
