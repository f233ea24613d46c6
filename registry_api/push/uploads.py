"""Uploads of a push: what each holds, where its parts go, which have arrived."""

import time
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from sqlalchemy.orm import Session

from ai_model_format.wire import (
    PartTarget,
    TargetList,
    UploadInfo,
    UploadList,
    UploadRequest,
    UploadsRequest,
)
from registry_api.access import Caller
from registry_api.db.tables import PushRow, UploadRow
from registry_api.errors import InvalidRequest, PushNotOpen, UploadNotFound
from registry_api.parts import Parts
from registry_api.push import queries
from registry_api.push.contents import check_contents, contents_of, contents_wanted, pushed_files
from registry_api.push.service import own_push
from registry_api.push.sweep import abandon_unless_committed, as_upload, drop_upload
from storage.interface import ObjectNotFound, Upload

FIRST_TARGETS = 100


def open_uploads(
    session: Session,
    parts: Parts,
    caller: Caller,
    push_id: uuid.UUID,
    request: UploadsRequest,
    *,
    base_url: str,
) -> UploadList:
    """Open uploads, or find them again with what has arrived.

    Raises:
        PushNotFound: there is no such push of the caller's.
        PushNotOpen: it was finished.
        InvalidRequest: an upload's contents do not fit the push.
    """
    push = open_push(session, caller, push_id, with_manifest=True)
    files = pushed_files(push)
    for wanted in request.uploads:
        check_contents(wanted, files)
        if push.files is not None and len(wanted.contents) > 1:
            raise InvalidRequest(f"upload {wanted.digest}: a plain file is an upload of its own")
    readable = queries.readable_objects(session, caller, [u.digest for u in request.uploads])
    there = {row.digest: row for row in queries.uploads_of(session, push.id)}
    described = []
    for wanted in request.uploads:
        row = there.get(wanted.digest)
        if row is None or not _same(row, wanted):
            if row is not None:
                drop_upload(session, parts.store, row)
                session.flush()
            row = _open_upload(session, parts, push, wanted, readable.get(wanted.digest))
            there[wanted.digest] = row
        described.append(_describe(session, parts, row, base_url))
    return UploadList(uploads=described)


def more_targets(
    session: Session,
    parts: Parts,
    caller: Caller,
    push_id: uuid.UUID,
    upload_id: uuid.UUID,
    part_numbers: Sequence[int],
    *,
    base_url: str,
) -> TargetList:
    """Return URLs for parts of an upload.

    Raises:
        UploadNotFound: the push has no such upload, or it takes no parts any more.
        InvalidRequest: the upload has no such part.
    """
    push = open_push(session, caller, push_id)
    row = queries.find_upload(session, push.id, upload_id)
    if row is None or row.state != "open":
        raise UploadNotFound("the push has no such upload that takes parts")
    beyond = [n for n in part_numbers if n > as_upload(row).part_count]
    if beyond:
        raise InvalidRequest(f"the upload has no parts {beyond[:20]}")
    expires_at = _expiry(parts)
    targets = _targets(parts, row, part_numbers, expires_at, base_url)
    return TargetList(targets=targets, expires_at=datetime.fromtimestamp(expires_at, UTC))


def open_push(
    session: Session, caller: Caller, push_id: uuid.UUID, *, with_manifest: bool = False
) -> PushRow:
    """Return an open push of the caller's, locked.

    Raises:
        PushNotFound: there is none.
        PushNotOpen: it was finished.
    """
    push = own_push(session, caller, push_id, lock=True, with_manifest=with_manifest)
    if push.state != "open":
        raise PushNotOpen(f"the push is {push.state}")
    return push


def _same(row: UploadRow, wanted: UploadRequest) -> bool:
    return contents_of(row) == contents_wanted(wanted) and row.size == wanted.size


def _open_upload(
    session: Session, parts: Parts, push: PushRow, wanted: UploadRequest, object_id: int | None
) -> UploadRow:
    row = UploadRow(
        id=uuid.uuid4(),
        push_id=push.id,
        digest=wanted.digest,
        size=wanted.size,
        contents=contents_wanted(wanted),
        state="open",
        created_at=datetime.now(UTC),
    )
    if object_id is not None:
        row.state, row.object_id = "stored", object_id
        row.part_size, row.key, row.store_id, row.in_place = wanted.size, "", "", False
    else:
        _begin(session, parts, row)
    session.add(row)
    session.flush()
    return row


def _begin(session: Session, parts: Parts, row: UploadRow) -> None:
    queries.lock_digest(session, row.digest)
    in_place = queries.find_object(session, row.digest) is None and not queries.open_in_place(
        session, row.digest
    )
    upload = parts.store.begin_upload(row.digest, row.size, in_place=in_place)
    abandon_unless_committed(session, parts.store, upload)
    row.part_size, row.key = upload.part_size, upload.key
    row.store_id, row.in_place = upload.store_id, upload.in_place


def _describe(session: Session, parts: Parts, row: UploadRow, base_url: str) -> UploadInfo:
    if row.state != "open":
        return UploadInfo(
            upload_id=str(row.id),
            digest=row.digest,
            size=row.size,
            state="stored",
            part_size=row.part_size,
        )
    stored = _parts_stored(session, parts, row)
    upload = as_upload(row)
    lacking = [n for n in range(1, upload.part_count + 1) if n not in stored][:FIRST_TARGETS]
    expires_at = _expiry(parts)
    return UploadInfo(
        upload_id=str(row.id),
        digest=row.digest,
        size=row.size,
        state="open",
        part_size=row.part_size,
        parts_stored=stored,
        targets=_targets(parts, row, lacking, expires_at, base_url),
        expires_at=datetime.fromtimestamp(expires_at, UTC),
    )


def _parts_stored(session: Session, parts: Parts, row: UploadRow) -> list[int]:
    """Return the parts that have arrived; an upload that the store has lost begins again."""
    try:
        stored = parts.store.parts_stored(as_upload(row))
    except ObjectNotFound:
        row.in_place = False
        session.flush()
        _begin(session, parts, row)
        return []
    upload = as_upload(row)
    return sorted(number for number, size in stored.items() if size == _part_size(upload, number))


def _part_size(upload: Upload, number: int) -> int:
    start, end = upload.part_range(number)
    return end - start


def _expiry(parts: Parts) -> int:
    return int(time.time()) + parts.settings.url_expires_s


def _targets(
    parts: Parts, row: UploadRow, numbers: Sequence[int], expires_at: int, base_url: str
) -> list[PartTarget]:
    sign = _signer(parts, row, expires_at, base_url)
    upload = as_upload(row)
    targets = []
    for number in numbers:
        start, end = upload.part_range(number)
        url, headers = sign(number)
        targets.append(
            PartTarget(part_number=number, offset=start, size=end - start, url=url, headers=headers)
        )
    return targets


def _signer(
    parts: Parts, row: UploadRow, expires_at: int, base_url: str
) -> Callable[[int], tuple[str, dict[str, str]]]:
    upload = as_upload(row)
    lasts_s = parts.settings.url_expires_s

    def sign(number: int) -> tuple[str, dict[str, str]]:
        target = parts.store.part_target(upload, number, expires_in_s=lasts_s)
        if target is not None:
            return target.url, dict(target.headers)
        path = f"/v1/uploads/{row.id}/parts/{number}"
        return base_url + parts.signer.sign("PUT", path, expires_at=expires_at), {}

    return sign


def writable_part(session: Session, upload_id: uuid.UUID, part_number: int) -> Upload:
    """Return the upload that a signed URL lets somebody send a part of.

    Raises:
        UploadNotFound: it is gone, takes no parts any more, or has no such part.
    """
    row = session.get(UploadRow, upload_id)
    if row is None or row.state != "open" or part_number > as_upload(row).part_count:
        raise UploadNotFound("there is no such part of an upload that takes parts")
    push = session.get_one(PushRow, row.push_id)
    if push.state != "open":
        raise PushNotOpen(f"the push is {push.state}")
    return as_upload(row)
