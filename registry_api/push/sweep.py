"""Drop pushes: on request, after a failure, or when their lease has run out."""

import logging
from datetime import UTC, datetime, timedelta

from sqlalchemy import event, select
from sqlalchemy.orm import Session

from registry_api.db.session import transaction
from registry_api.db.tables import PushRow, UploadRow
from registry_api.errors import PushNotOpen
from registry_api.parts import Parts
from registry_api.push import queries
from storage.interface import ObjectStore, StoreError, Upload
from storage.keys import is_upload_key, parse_object_key

BATCH = 100

logger = logging.getLogger("registry_api")


def as_upload(row: UploadRow) -> Upload:
    """Return an upload as the store knows it. Pure."""
    return Upload(
        digest=row.digest,
        size=row.size,
        part_size=row.part_size,
        key=row.key,
        store_id=row.store_id,
        in_place=row.in_place,
    )


def drop_upload(session: Session, store: ObjectStore, row: UploadRow) -> None:
    """Drop an upload with its bytes, but never an object that was published another way."""
    if row.state != "stored":
        queries.lock_digest(session, row.digest)
        if row.in_place and queries.find_object(session, row.digest):
            store.abort_key(row.key)
        else:
            store.abort(as_upload(row))
    session.delete(row)


def abandon_unless_committed(session: Session, store: ObjectStore, upload: Upload) -> None:
    """Have the store forget an upload just begun if the transaction with its row comes to nothing.

    By then others may use the object's key, so only the upload itself is touched.
    """

    def abandon(_: Session) -> None:
        try:
            store.abandon(upload)
        except StoreError:
            logger.exception("upload %s stays until it is swept", upload.key)

    event.listen(session, "after_rollback", abandon)


def drop_uploads(session: Session, store: ObjectStore, push: PushRow) -> None:
    """Drop every upload of a push."""
    for row in queries.uploads_of(session, push.id):
        drop_upload(session, store, row)


def drop_push(session: Session, store: ObjectStore, push: PushRow) -> None:
    """Drop a locked push and its uploads.

    Raises:
        PushNotOpen: it is being verified.
    """
    if push.state == "verifying":
        raise PushNotOpen("the push is being verified; wait for its end")
    drop_uploads(session, store, push)
    session.flush()
    session.delete(push)


def drop_expired(parts: Parts) -> int:
    """Drop pushes whose lease has run out; return how many."""
    dropped = 0
    while True:
        with transaction(parts.engine) as session:
            expired = session.scalars(
                select(PushRow)
                .where(PushRow.state != "verifying", PushRow.expires_at < datetime.now(UTC))
                .limit(BATCH)
                .with_for_update(skip_locked=True)
            ).all()
            for push in expired:
                drop_push(session, parts.store, push)
        dropped += len(expired)
        if len(expired) < BATCH:
            return dropped


def drop_orphans(parts: Parts) -> int:
    """Drop uploads in the store that have outlived any push and have no row; return how many.

    A process that dies while it opens uploads leaves them behind.
    """
    oldest = datetime.now(UTC) - timedelta(seconds=parts.settings.push_expires_s)
    stale = [key for key, begun_at in parts.store.list_uploads() if begun_at < oldest]
    return sum(_drop_orphan(parts, key) for key in stale)


def _drop_orphan(parts: Parts, key: str) -> bool:
    digest = parse_object_key(key)
    if digest is None and not is_upload_key(key):
        return False  # somebody else's, in the same bucket
    with transaction(parts.engine) as session:
        if digest is not None:
            queries.lock_digest(session, digest)
        if queries.has_upload_at(session, key):
            return False
        parts.store.abort_key(key)
    return True
