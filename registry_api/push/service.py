"""Begin, watch and drop a push. Uploads, finish, verify and publish have modules of their own."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from ai_model_format.manifest import Manifest
from ai_model_format.manifest_reader import read_checked_manifest
from ai_model_format.wire import (
    MissingChunks,
    Problem,
    PushInfo,
    PushRequest,
)
from registry_api.access import Caller
from registry_api.catalog import aliases
from registry_api.catalog import queries as catalog
from registry_api.db.tables import PushRow, VersionRow
from registry_api.errors import (
    NameConflict,
    PushNotFound,
    VersionConflict,
)
from registry_api.parts import Parts
from registry_api.push import queries, sweep
from registry_api.push.chunks import missing_chunks, missing_size
from registry_api.push.content import Content, read_content
from registry_api.push.parents import pin_parents

ENDED_KEPT = timedelta(days=7)
"""How long a push that has ended can still be looked at."""


def begin(
    session: Session, parts: Parts, caller: Caller, model_id: str, request: PushRequest
) -> tuple[PushInfo, bool]:
    """Open a push, or find the same one again; also say whether it is new.

    Raises:
        VersionConflict: the version exists with other bytes.
        NameConflict: an alias has the version's name, or a version the alias's.
        InvalidRequest: a parent is not a version that the caller may read.
    """
    if request.alias == request.version:
        raise NameConflict("the alias has the name of the version itself")
    content = read_content(request)
    metadata = pin_parents(session, caller, request.metadata)
    request = request.model_copy(update={"metadata": metadata})
    published = _published(session, caller, model_id, request, content)
    if published is not None:
        return show_row(session, caller, published), False
    wanted = _new_push(parts, caller, model_id, request, content)
    row, is_new = _insert_or_find(session, wanted)
    row.facts, row.alias, row.expires_at = wanted.facts, wanted.alias, wanted.expires_at
    return show_row(session, caller, row, content.manifest), is_new


def show(
    session: Session, parts: Parts, caller: Caller, push_id: uuid.UUID, *, with_missing: bool = True
) -> PushInfo:
    """Return how far a push is; an open one lives on from now.

    Raises:
        PushNotFound: there is none, or it is somebody else's.
    """
    row = own_push(session, caller, push_id)
    if row.state == "open":
        row.expires_at = datetime.now(UTC) + timedelta(seconds=parts.settings.push_expires_s)
    return show_row(session, caller, row, with_missing=with_missing)


def drop(session: Session, parts: Parts, caller: Caller, push_id: uuid.UUID) -> None:
    """Drop an open push and what was uploaded for it; one that has ended only goes from the list.

    Raises:
        PushNotFound: there is none, or it is somebody else's.
        PushNotOpen: it is being verified.
    """
    sweep.drop_push(session, parts.store, own_push(session, caller, push_id, lock=True))


def own_push(
    session: Session,
    caller: Caller,
    push_id: uuid.UUID,
    *,
    lock: bool = False,
    with_manifest: bool = False,
) -> PushRow:
    """Return a push of the caller's.

    Raises:
        PushNotFound: there is none, or it is somebody else's.
    """
    row = queries.find_push(session, push_id, lock=lock, with_manifest=with_manifest)
    if row is None or row.token_id != caller.token_id:
        raise PushNotFound
    return row


def show_row(
    session: Session,
    caller: Caller,
    row: PushRow,
    manifest: Manifest | None = None,
    *,
    with_missing: bool = True,
) -> PushInfo:
    """Return a push as its owner sees it; ``manifest`` saves reading it again."""
    missing: list[MissingChunks] = []
    bytes_missing = 0
    if row.state == "open" and with_missing:
        missing, bytes_missing = _missing(session, caller, row, manifest)
    return PushInfo(
        push_id=str(row.id),
        model_id=row.model_name,
        version=row.version_name,
        manifest_digest=row.manifest_digest,
        state=row.state,  # type: ignore[arg-type]  # a constraint says so
        created=row.created,
        missing=missing,
        bytes_total=row.bytes_total,
        bytes_missing=bytes_missing,
        bytes_verified=row.bytes_verified,
        expires_at=row.expires_at,
        problem=Problem.model_validate(row.problem) if row.problem else None,
        notes=row.notes,
    )


def note_on_metadata(version: VersionRow, facts: Any) -> list[str]:
    """Return what to tell the author of a version that was there before. Pure."""
    if version.facts == facts:
        return []
    return [f"The metadata of {version.name!r} differs from yours and stays as it was published."]


def _missing(
    session: Session, caller: Caller, row: PushRow, manifest: Manifest | None
) -> tuple[list[MissingChunks], int]:
    if row.files is not None:
        whole = queries.readable_objects(session, caller, [file["sha256"] for file in row.files])
        lacking = [f for f in row.files if f["size"] and f["sha256"] not in whole]
        found = [MissingChunks(path=file["path"], ranges=[(0, 1)]) for file in lacking]
        return found, sum(file["size"] for file in lacking)
    if manifest is None:
        assert row.manifest is not None
        # Loaded only here: who waits for the end asks often, and needs none of it.
        manifest = read_checked_manifest(row.manifest)
    whole = queries.readable_objects(session, caller, [file.sha256 for file in manifest.files])
    digests = {c.digest for f in manifest.files if f.sha256 not in whole for c in f.chunks}
    known = queries.known_chunks(session, caller, digests)
    missing = missing_chunks(manifest, known.__contains__, whole)
    return missing, missing_size(manifest, missing)


def _published(
    session: Session, caller: Caller, model_id: str, request: PushRequest, content: Content
) -> PushRow | None:
    """Return an ended push when the version is there with these bytes; refuse other bytes."""
    model = catalog.find_model(session, model_id)
    if model is None:
        return None
    if catalog.find_alias(session, model.id, request.version):
        raise NameConflict(f"{request.version!r} is an alias of {model_id!r}")
    if request.alias is not None:
        aliases.check_free_for_alias(session, model, request.alias)
    version = catalog.find_version(session, model.id, request.version)
    if version is None:
        return None
    if not _same_bytes(session, version, content):
        raise VersionConflict(model_id, request.version)
    facts = request.metadata.model_dump(mode="json")
    row = PushRow(
        token_id=caller.token_id,
        model_name=model_id,
        version_name=request.version,
        content_digest=content.digest,
        manifest_digest=version.manifest_digest,
        state="ready",
        facts=facts,
        notes=note_on_metadata(version, facts),
        bytes_total=version.size,
        bytes_verified=version.size,
        expires_at=datetime.now(UTC) + ENDED_KEPT,
    )
    if request.alias is not None:
        locked = catalog.lock_model(session, model_id)
        assert locked is not None
        aliases.point(session, caller, locked, request.alias, version)
    session.add(row)
    session.flush()
    return row


def _same_bytes(session: Session, version: VersionRow, content: Content) -> bool:
    if content.manifest is not None:
        return version.manifest_digest == content.digest
    stored = [(f.path, f.size, f.sha256) for f in catalog.files_of(session, version.id)]
    return stored == [(f.path, f.size, f.sha256) for f in content.files]


def _new_push(
    parts: Parts, caller: Caller, model_id: str, request: PushRequest, content: Content
) -> PushRow:
    is_manifest = content.manifest is not None
    return PushRow(
        id=uuid.uuid4(),
        token_id=caller.token_id,
        model_name=model_id,
        version_name=request.version,
        content_digest=content.digest,
        state="open",
        manifest=content.manifest_bytes,
        manifest_digest=content.digest if is_manifest else None,
        files=None if is_manifest else [file.model_dump() for file in content.files],
        facts=request.metadata.model_dump(mode="json"),
        alias=request.alias,
        created=False,
        notes=[],
        bytes_total=content.size,
        bytes_verified=0,
        expires_at=datetime.now(UTC) + timedelta(seconds=parts.settings.push_expires_s),
    )


def _insert_or_find(session: Session, wanted: PushRow) -> tuple[PushRow, bool]:
    found = queries.find_push_under_way(session, wanted)
    if found is not None:
        return found, False
    try:
        with session.begin_nested():
            session.add(wanted)
    except IntegrityError:  # another process was faster with the same push
        found = queries.find_push_under_way(session, wanted)
        if found is None:
            raise
        return found, False
    return wanted, True
