"""Finish: everything has arrived, so the service may look at it.

Closes the uploads, moves the push to ``verifying`` and, in the same
transaction, defers the job that verifies it; a small push is verified at once.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from ai_model_format.digest import Digest
from ai_model_format.manifest import Manifest
from ai_model_format.manifest_reader import read_checked_manifest
from ai_model_format.wire import FieldError, PushInfo
from registry_api import jobs
from registry_api.access import Caller
from registry_api.db.session import transaction
from registry_api.db.tables import PushRow, UploadRow
from registry_api.errors import UploadConflict, UploadIncompleteYet, VersionConflict
from registry_api.parts import Parts
from registry_api.push import queries, service, verify
from registry_api.push.contents import chunks_held, pushed_files
from registry_api.push.sweep import as_upload, drop_upload
from storage.interface import ObjectNotFound, UploadIncomplete

MAX_NAMED = 20


@dataclass(frozen=True, slots=True)
class Closed:
    """What closing the uploads of a push came to.

    Attributes:
        lost: digests that were published another way, so that their upload is void.
        verify_now: the push is small enough to be verified within the request.
    """

    lost: Sequence[Digest] = ()
    verify_now: bool = False


def finish(parts: Parts, caller: Caller, push_id: uuid.UUID) -> PushInfo:
    """Close a push's uploads and have it verified; sent again, it tells how far that is.

    Raises:
        PushNotFound: there is no such push of the caller's.
        UploadIncompleteYet: chunks or parts are missing.
        UploadConflict: an upload is void, because its object was published another way.
        VersionConflict: somebody published the version with other bytes first.
    """
    with transaction(parts.engine) as session:
        closed = _close(session, parts, caller, push_id)
    if closed.lost:
        raise UploadConflict(
            "objects were published by another push meanwhile; open these uploads again",
            [FieldError(field="digest", message=digest) for digest in closed.lost[:MAX_NAMED]],
        )
    if closed.verify_now:
        verify.run(parts, push_id)
    with transaction(parts.engine) as session:
        info = service.show(session, parts, caller, push_id, with_missing=False)
    if info.problem is not None and info.problem.code == VersionConflict.code:
        raise VersionConflict(info.model_id, info.version)
    return info


def _close(session: Session, parts: Parts, caller: Caller, push_id: uuid.UUID) -> Closed:
    push = service.own_push(session, caller, push_id, lock=True, with_manifest=True)
    small = parts.settings.verify_inline_bytes
    if push.state != "open":  # perhaps left behind by a process that died
        return Closed(verify_now=push.state == "verifying" and push.bytes_total <= small)
    uploads = queries.uploads_of(session, push.id)
    _check_covered(session, caller, push, uploads)
    _check_arrived(parts, uploads)
    lost = _complete(session, parts, uploads)
    if lost:
        return Closed(lost=lost)
    push.state = "verifying"
    pending = sum(row.size for row in uploads if row.state != "stored")
    verify_now = max(pending, push.bytes_total) <= small
    if not verify_now:
        jobs.defer_verify(session, push.id)
    return Closed(verify_now=verify_now)


def _complete(session: Session, parts: Parts, uploads: Sequence[UploadRow]) -> list[Digest]:
    """Complete uploads; drop and return those that lost their place to a published object."""
    lost = []
    for row in uploads:
        if row.state != "open":
            continue
        queries.lock_digest(session, row.digest)
        if row.in_place and queries.find_object(session, row.digest):
            drop_upload(session, parts.store, row)
            lost.append(row.digest)
            continue
        parts.store.complete(as_upload(row))
        row.state = "completed"
    return lost


def _check_arrived(parts: Parts, uploads: Sequence[UploadRow]) -> None:
    problems: list[FieldError] = []
    for row in uploads:
        if row.state != "open":
            continue
        missing = _missing_parts(parts, row)
        if missing:
            named = ", ".join(map(str, missing[:MAX_NAMED]))
            problems.append(FieldError(field=row.digest, message=f"parts missing: {named}"))
    if problems:
        raise UploadIncompleteYet("parts of uploads are missing", problems[:MAX_NAMED])


def _missing_parts(parts: Parts, row: UploadRow) -> list[int]:
    upload = as_upload(row)
    try:
        stored = parts.store.parts_stored(upload)
    except UploadIncomplete as error:
        return error.part_numbers
    except ObjectNotFound:
        stored = {}
    missing = []
    for number in range(1, upload.part_count + 1):
        start, end = upload.part_range(number)
        if stored.get(number) != end - start:
            missing.append(number)
    return missing


def _check_covered(
    session: Session, caller: Caller, push: PushRow, uploads: Sequence[UploadRow]
) -> None:
    """Insist that every chunk is known or uploaded."""
    manifest = read_checked_manifest(push.manifest) if push.manifest is not None else None
    sent = chunks_held(uploads, pushed_files(push, manifest))
    if manifest is None:
        assert push.files is not None
        wanted = {file["sha256"]: file["path"] for file in push.files if file["size"]}
    else:
        wanted = {chunk.digest: f.path for f in manifest.files for chunk in f.chunks}
    lacking = wanted.keys() - sent
    if manifest is not None and lacking:
        lacking -= queries.known_chunks(session, caller, lacking)
    if lacking:
        lacking = _not_in_whole_files(session, caller, push, manifest, lacking)
    if lacking:
        paths = sorted({wanted[digest] for digest in lacking})
        raise UploadIncompleteYet(
            f"{len(lacking)} chunks of {len(paths)} files were not uploaded",
            [FieldError(field=path, message="chunks missing") for path in paths[:MAX_NAMED]],
        )


def _not_in_whole_files(
    session: Session,
    caller: Caller,
    push: PushRow,
    manifest: Manifest | None,
    lacking: set[Digest],
) -> set[Digest]:
    """Take away the chunks of files that are an object as a whole."""
    if manifest is None:
        return lacking - queries.readable_objects(session, caller, lacking).keys()
    digests = [file.sha256 for file in manifest.files]
    whole = queries.readable_objects(session, caller, digests)
    held = {c.digest for f in manifest.files if f.sha256 in whole for c in f.chunks}
    return lacking - held
