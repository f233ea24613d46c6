"""SQL of pushes: who holds which bytes, what is under way, and the rows of a new version.

An object is readable for a caller when a version of a model they may read needs
it. Whoever merely knows a digest finds nothing here.
"""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import psycopg
from sqlalchemy import ARRAY, BigInteger, any_, bindparam, func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session, undefer

from ai_model_format.digest import Digest, digest_from_raw, raw_of
from registry_api.access import Caller
from registry_api.db.tables import FileRow, ObjectRow, PushRow, UploadRow, VersionObjectRow
from registry_api.push.chunks import Location

BATCH = 20_000
LOCATIONS_KEPT = 4
"""Of a chunk that lies in many objects (zeros, say) only the newest few are looked at."""

_READABLE = """
    EXISTS (
        SELECT 1 FROM version_object needs
        JOIN version ON version.id = needs.version_id
        JOIN model ON model.id = version.model_id
        WHERE needs.object_id = {object_id} AND (:sees_all OR model.name LIKE ANY(:patterns))
    )
"""
_KNOWN = text(f"""
    SELECT wanted.digest FROM unnest(CAST(:digests AS bytea[])) AS wanted (digest)
    WHERE EXISTS (
        SELECT 1 FROM chunk WHERE chunk.digest = wanted.digest
        AND {_READABLE.format(object_id="chunk.object_id")}
    )
""")  # noqa: S608 - made of constants
_LOCATED = text(f"""
    SELECT wanted.digest, found.object_id, found.start
    FROM unnest(CAST(:digests AS bytea[])) AS wanted (digest)
    CROSS JOIN LATERAL (
        SELECT chunk.object_id, chunk.start FROM chunk WHERE chunk.digest = wanted.digest
        AND {_READABLE.format(object_id="chunk.object_id")}
        ORDER BY chunk.object_id DESC LIMIT {LOCATIONS_KEPT}
    ) found
""")  # noqa: S608 - made of constants
_OBJECTS = text(f"""
    SELECT object.digest, object.id FROM object
    WHERE object.digest = ANY(CAST(:digests AS bytea[]))
    AND {_READABLE.format(object_id="object.id")}
""")  # noqa: S608 - made of constants


def known_chunks(session: Session, caller: Caller, digests: Iterable[Digest]) -> set[Digest]:
    """Return those of the chunks that lie in an object the caller may read."""
    return {digest_from_raw(row[0]) for row in _by_digests(session, _KNOWN, caller, digests)}


def locate_chunks(
    session: Session, caller: Caller, digests: Iterable[Digest]
) -> dict[Digest, list[Location]]:
    """Return where each of the chunks lies, as far as the caller may read, newest first."""
    found: dict[Digest, list[Location]] = {}
    for raw, object_id, start in _by_digests(session, _LOCATED, caller, digests):
        found.setdefault(digest_from_raw(raw), []).append(Location(object_id, start))
    return found


def readable_objects(
    session: Session, caller: Caller, digests: Iterable[Digest]
) -> dict[Digest, int]:
    """Return the ids of those of the objects that the caller may read."""
    rows = _by_digests(session, _OBJECTS, caller, digests)
    return {digest_from_raw(raw): object_id for raw, object_id in rows}


def _by_digests(
    session: Session, query: Any, caller: Caller, digests: Iterable[Digest]
) -> Iterator[Sequence[Any]]:
    who = {"sees_all": caller.sees_all, "patterns": caller.patterns}
    for batch in _batches(sorted({raw_of(digest) for digest in digests})):
        yield from session.execute(query, {"digests": batch, **who})


def _batches(items: Sequence[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(items), BATCH):
        yield list(items[start : start + BATCH])


# Pushes and uploads


def find_push(
    session: Session, push_id: uuid.UUID, *, lock: bool = False, with_manifest: bool = False
) -> PushRow | None:
    """Return a push, locked until the transaction ends where asked."""
    query = select(PushRow).where(PushRow.id == push_id)
    if with_manifest:
        query = query.options(undefer(PushRow.manifest))
    if lock:
        query = query.with_for_update()
    return session.scalar(query)


def find_push_under_way(session: Session, like: PushRow) -> PushRow | None:
    """Return the open or verifying push of the same content by the same token."""
    return session.scalar(
        select(PushRow)
        .where(
            PushRow.token_id == like.token_id,
            PushRow.model_name == like.model_name,
            PushRow.version_name == like.version_name,
            PushRow.content_digest == like.content_digest,
            PushRow.state.in_(("open", "verifying")),
        )
        .with_for_update()
    )


def uploads_of(session: Session, push_id: uuid.UUID) -> Sequence[UploadRow]:
    """Return the uploads of a push, in order of digest, which is the order to lock them in."""
    return session.scalars(
        select(UploadRow).where(UploadRow.push_id == push_id).order_by(UploadRow.digest)
    ).all()


def find_upload(session: Session, push_id: uuid.UUID, upload_id: uuid.UUID) -> UploadRow | None:
    """Return an upload of this push."""
    return session.scalar(
        select(UploadRow).where(UploadRow.id == upload_id, UploadRow.push_id == push_id)
    )


def lock_digest(session: Session, digest: Digest) -> None:
    """Wait until nobody else decides about this object, and keep others waiting till the end."""
    key = int.from_bytes(raw_of(digest)[:8], "big", signed=True)
    session.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})


def find_object(session: Session, digest: Digest) -> ObjectRow | None:
    """Return an object's row, whoever may read it."""
    return session.scalar(select(ObjectRow).where(ObjectRow.digest == digest))


def open_in_place(session: Session, digest: Digest) -> bool:
    """Say whether an upload gathers at the object's own key."""
    query = select(UploadRow.id).where(
        UploadRow.digest == digest, UploadRow.in_place, UploadRow.state != "stored"
    )
    return session.scalar(query) is not None


def has_upload_at(session: Session, key: str) -> bool:
    """Say whether an upload gathers, or has gathered, at this key of the store."""
    return session.scalar(select(UploadRow.id).where(UploadRow.key == key).limit(1)) is not None


def add_object(session: Session, digest: Digest, size: int) -> int:
    """Say that the service has hashed an object; return its id."""
    session.execute(insert(ObjectRow).values(digest=digest, size=size).on_conflict_do_nothing())
    return session.scalars(select(ObjectRow.id).where(ObjectRow.digest == digest)).one()


# A new version


def known_contents(session: Session, digests: Iterable[Digest]) -> set[Digest]:
    """Return those of the files' content digests that were verified for an earlier version."""
    found: set[Digest] = set()
    for batch in _batches(sorted(set(digests))):
        found.update(
            session.scalars(
                select(FileRow.content_digest).where(FileRow.content_digest.in_(batch)).distinct()
            )
        )
    return found


def object_ids(session: Session, digests: Iterable[Digest]) -> dict[Digest, int]:
    """Return the ids of objects by digest, whoever may read them."""
    rows = session.execute(
        select(ObjectRow.digest, ObjectRow.id).where(ObjectRow.digest.in_(list(set(digests))))
    )
    return {row.digest: row.id for row in rows}


def object_digests(session: Session, ids: Iterable[int]) -> dict[int, tuple[Digest, int]]:
    """Return digest and size of objects by id."""
    rows = session.execute(
        select(ObjectRow.id, ObjectRow.digest, ObjectRow.size).where(
            ObjectRow.id == any_(bindparam(None, list(set(ids)), ARRAY(BigInteger)))
        )
    )
    return {object_id: (digest, size) for object_id, digest, size in rows}


def add_chunks(session: Session, rows: Iterable[tuple[Digest, int, int, int]]) -> None:
    """Write where chunks lie: (digest, object id, start, size).

    By COPY, as there may be 100,000 at once; in order of digest, so that two
    pushes cannot wait for each other.
    """
    connection = cast("psycopg.Connection[Any]", session.connection().connection.driver_connection)
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TEMP TABLE new_chunk (digest bytea, object_id bigint, start bigint, size int)"
            " ON COMMIT DROP"
        )
        with cursor.copy("COPY new_chunk FROM STDIN") as copy:
            for digest, object_id, start, size in rows:
                copy.write_row((raw_of(digest), object_id, start, size))
        cursor.execute(
            "INSERT INTO chunk SELECT DISTINCT ON (digest, object_id) * FROM new_chunk"
            " ORDER BY digest, object_id, start ON CONFLICT DO NOTHING"
        )


def size_of_unneeded(session: Session, object_pks: Iterable[int]) -> int:
    """Return the bytes of those objects that no version needs yet."""
    query = select(func.coalesce(func.sum(ObjectRow.size), 0)).where(
        ObjectRow.id.in_(set(object_pks)),
        ~select(VersionObjectRow.version_id)
        .where(VersionObjectRow.object_id == ObjectRow.id)
        .exists(),
    )
    return int(session.scalars(query).one())


def add_needs(session: Session, version_pk: int, object_pks: Iterable[int]) -> None:
    """Say which objects a version needs."""
    rows = [{"version_id": version_pk, "object_id": pk} for pk in sorted(set(object_pks))]
    session.execute(insert(VersionObjectRow), rows)
