"""Verify a push: hash what was uploaded, then publish or fail it.

A client's hash is a claim. Every uploaded object is read and hashed whole and
by chunk before it gets a row; then every file whose content is not known from
an earlier version is read as it will be laid out. Only one process works on a
push, held by a Postgres lock that dies with the process, so that another can
take over at any moment: what is stored already is not read again.
"""

import logging
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from sqlalchemy import func, text, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from ai_model_format.byte_range import ByteRange
from ai_model_format.digest import Digest
from ai_model_format.manifest import File, Manifest
from ai_model_format.manifest_reader import read_checked_manifest
from ai_model_format.wire import FieldError
from registry_api.access import Caller, caller_of
from registry_api.db.session import transaction
from registry_api.db.tables import PushRow, TokenRow, UploadRow
from registry_api.errors import IntegrityFailed, RegistryError
from registry_api.parts import Parts
from registry_api.push import publish, queries
from registry_api.push.chunks import Run, long_tensors
from registry_api.push.contents import contents_of
from registry_api.push.indexing import index_files
from registry_api.push.sweep import as_upload, drop_uploads
from storage.hashing import IntegrityError, verify
from storage.interface import ObjectNotFound, StoreError
from storage.read_ahead import Reader, read_ahead

LOCK_CLASS = 0x70757368
"""Of the locks on pushes: a key space of two numbers, apart from that of digests, which clients
choose. Two pushes that share a key are verified one after the other."""
REPORT_EVERY = 64 * 1024 * 1024
"""Bytes between two writes of how far verifying is."""

logger = logging.getLogger("registry_api")


@dataclass(frozen=True, slots=True)
class Work:
    """A push being verified, as plain values: no transaction stays open while bytes are read.

    Attributes:
        push: its row, detached.
        caller: whose rights decide which chunks may be shared.
        manifest: ``None`` until plain files are indexed.
        uploads: their rows, detached.
    """

    push: PushRow
    caller: Caller
    manifest: Manifest | None
    uploads: Sequence[UploadRow]


class WorkStopped(Exception):
    """The process is told to end; the push waits for another."""


def run(parts: Parts, push_id: uuid.UUID) -> None:
    """Verify and publish a push that is ``verifying``; nothing where another process does."""
    with _only_here(parts, push_id) as is_mine:
        if not is_mine:
            return
        work = _load(parts, push_id)
        if work is None:
            return
        try:
            _verify_and_publish(parts, work)
        except WorkStopped:
            return
        except RegistryError as error:
            fail(parts, push_id, error)
        except ObjectNotFound:
            fail(parts, push_id, IntegrityFailed("uploaded bytes have gone from the store"))
        except (StoreError, OperationalError, PoolTimeout):
            raise  # the store or Postgres is away; the push is taken up again later
        except Exception:
            logger.exception("push %s cannot be verified", push_id)
            fail(parts, push_id, RegistryError("the service failed to verify the push"))


def fail(parts: Parts, push_id: uuid.UUID, error: RegistryError) -> None:
    """End a push with a problem and drop the bytes that were uploaded for it."""
    with transaction(parts.engine) as session:
        push = queries.find_push(session, push_id, lock=True)
        if push is None or push.state != "verifying":
            return
        drop_uploads(session, parts.store, push)
        publish.end(push, "failed")
        push.problem = error.problem().model_dump(mode="json")
    logger.info("push %s failed: %s", push_id, error)


def _verify_and_publish(parts: Parts, work: Work) -> None:
    report = _Progress(parts, work.push.id)
    manifest = work.manifest
    if manifest is None:
        manifest = index_files(parts, work.push, work.uploads)
        publish.keep_manifest(parts, work.push.id, manifest)
    verified: set[str] = set()
    hashed: set[Digest] = set()
    for upload in work.uploads:
        if upload.state != "stored":
            verified |= _verify_upload(parts, work.push, upload, manifest, report)
            publish.store_object(parts, upload)
            hashed.add(upload.digest)
    with transaction(parts.engine) as session:
        uploads = queries.uploads_of(session, work.push.id)
        plan = publish.plan_layout(session, work.caller, work.push, manifest, uploads, hashed)
        known = queries.known_contents(session, plan.content_digests.values())
        digests = queries.object_digests(session, plan.object_ids)
    for file in manifest.files:
        is_known = plan.content_digests[file.path] in known and file.path not in plan.claimed
        if file.path not in verified and not is_known:
            _verify_file(parts, file, plan, digests, report)
            verified.add(file.path)
    publish.publish(parts, work.caller, work.push.id, manifest, plan, verified)


def _verify_upload(
    parts: Parts, push: PushRow, row: UploadRow, manifest: Manifest, report: "_Progress"
) -> set[str]:
    """Hash an upload and its chunks; return the paths of files that are verified by that."""
    files = {file.path: file for file in manifest.files}
    contents = contents_of(row)
    if push.files is not None:  # a plain file is uploaded whole, before it was cut
        contents = [(path, 0, len(files[path].chunks)) for path, _, _ in contents]
    pieces = [
        (files[path], index) for path, first, last in contents for index in range(first, last)
    ]
    whole = [
        files[path]
        for path, first, last in contents
        if len(contents) == 1 and last - first == len(files[path].chunks)
    ]
    extra = [tensor for file in whole for tensor in long_tensors(file)]
    try:
        verify(
            _read(parts, [(partial(parts.store.read_upload, as_upload(row)), 0, row.size)]),
            size=row.size,
            digest=row.digest,
            chunks=[file.chunks[index] for file, index in pieces],
            extra=[(span, digest) for _, span, digest in extra],
            progress=report,
        )
    except IntegrityError as error:
        raise _explain(error, pieces, [name for name, _, _ in extra]) from error
    return {file.path for file in whole}


def _verify_file(
    parts: Parts,
    file: File,
    plan: publish.Plan,
    digests: dict[int, tuple[Digest, int]],
    report: "_Progress",
) -> None:
    """Hash a file as its readers will put it together: whole, and by long tensor.

    Of its chunks only those that nobody has hashed where they lie.
    """
    extra = long_tensors(file)
    pieces = [(file, index) for index in range(len(file.chunks))]
    try:
        verify(
            _read_runs(parts, plan.runs[file.path], digests),
            size=file.size,
            digest=file.sha256,
            chunks=() if file.path in plan.proven else file.chunks,
            extra=[(span, digest) for _, span, digest in extra],
            progress=report,
        )
    except IntegrityError as error:
        raise _explain(error, pieces, [name for name, _, _ in extra]) from error


def _read_runs(
    parts: Parts, runs: Sequence[Run], digests: dict[int, tuple[Digest, int]]
) -> Iterable[bytes]:
    return _read(
        parts,
        [
            (partial(parts.store.read, digests[object_id][0]), start, start + size)
            for object_id, start, size in runs
        ],
    )


def _read(parts: Parts, sources: Sequence[tuple[Reader, int, int]]) -> Iterable[bytes]:
    if parts.settings.store == "local":  # comes faster than it is hashed, and hot in the cache
        return (piece for read, start, end in sources for piece in read(start, end))
    return read_ahead(sources)


def _explain(
    error: IntegrityError, pieces: Sequence[tuple[File, int]], tensors: Sequence[str]
) -> IntegrityFailed:
    """Name the file and the chunk or tensor that is wrong."""
    if error.kind == "chunk":
        file, index = pieces[error.index]
        span = ByteRange(file.chunk_starts[index], file.chunk_starts[index + 1])
        place = f"chunk {index}{_tensor_at(file, span)}"
    else:
        file = pieces[0][0]
        place = f"tensor {tensors[error.index]!r}" if error.kind == "range" else "the whole"
    found = f"has the digest {error.actual}" if error.actual else "has another size"
    message = f"{place} {found}, expected {error.expected}"
    return IntegrityFailed(
        f"file {file.path!r}: {message}", [FieldError(field=file.path, message=message)]
    )


def _tensor_at(file: File, span: ByteRange) -> str:
    for tensor in file.tensors:
        if tensor.start < span.end and span.start < tensor.end:
            return f" (tensor {tensor.name!r})"
    return ""


def _load(parts: Parts, push_id: uuid.UUID) -> Work | None:
    with transaction(parts.engine) as session:
        push = queries.find_push(session, push_id, with_manifest=True)
        if push is None or push.state != "verifying":
            return None
        manifest = read_checked_manifest(push.manifest) if push.manifest is not None else None
        caller = caller_of(session.get_one(TokenRow, push.token_id))
        uploads = queries.uploads_of(session, push_id)
        push.bytes_verified = 0
        session.flush()
        session.expunge_all()
    return Work(push, caller, manifest, uploads)


@contextmanager
def _only_here(parts: Parts, push_id: uuid.UUID) -> Iterator[bool]:
    """Hold the right to verify a push, on a connection of its own."""
    lock = {"of": LOCK_CLASS, "key": int.from_bytes(push_id.bytes[:4], "big", signed=True)}
    with parts.lock_engine.connect() as connection:
        query = text("SELECT pg_try_advisory_lock(CAST(:of AS int), CAST(:key AS int))")
        is_mine = bool(connection.scalar(query, lock))
        try:
            yield is_mine
        finally:
            if is_mine:
                query = text("SELECT pg_advisory_unlock(CAST(:of AS int), CAST(:key AS int))")
                connection.execute(query, lock)


class _Progress:
    """Writes how far verifying is, now and then."""

    def __init__(self, parts: Parts, push_id: uuid.UUID) -> None:
        self._parts, self._push_id = parts, push_id
        self._seen = self._written = 0

    def __call__(self, size: int) -> None:
        """Take the bytes of one more piece."""
        if self._parts.stopping.is_set():
            raise WorkStopped
        self._seen += size
        if self._seen - self._written < REPORT_EVERY:
            return
        self._written = self._seen
        with transaction(self._parts.engine) as session:
            session.execute(
                update(PushRow)
                .where(PushRow.id == self._push_id)
                .values(bytes_verified=func.least(self._seen, PushRow.bytes_total))
            )
