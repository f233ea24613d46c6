"""Make the manifest of plain files: the service reads their structure and hashes their chunks."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ai_model_format.byte_range import ByteRange
from ai_model_format.chunks import plan_chunks
from ai_model_format.digest import EMPTY_DIGEST
from ai_model_format.formats.detect import index_file
from ai_model_format.formats.interface import InvalidWeightFile, ReadRange
from ai_model_format.manifest import Chunk, File, InvalidManifest, Manifest
from ai_model_format.manifest_rules import check_manifest
from ai_model_format.wire import FieldError
from registry_api.db.tables import PushRow, UploadRow
from registry_api.errors import InvalidManifestSent
from registry_api.parts import Parts
from registry_api.push.sweep import as_upload
from storage.hashing import digest_ranges

MAX_HASHED_TIMES = 8
"""Times a file's size that hashing its tensors may take; views of one storage overlap."""

Stream = Callable[[int, int], Iterator[bytes]]


def index_files(parts: Parts, push: PushRow, uploads: Sequence[UploadRow]) -> Manifest:
    """Return the manifest of a push of plain files, with digests of the bytes as they are.

    Raises:
        InvalidManifestSent: a file breaks the rules of the format it claims.
    """
    assert push.files is not None
    streams = {row.digest: _stream(parts, row) for row in uploads}
    files = []
    for plain in push.files:
        stream = streams.get(plain["sha256"]) or _stored(parts, plain["sha256"])
        try:
            files.append(_index(plain["path"], plain["size"], plain["sha256"], stream))
        except (InvalidWeightFile, InvalidManifest) as error:
            raise InvalidManifestSent(
                f"file {plain['path']!r}: {error}",
                [FieldError(field=plain["path"], message=str(error)[:500])],
            ) from error
    manifest = Manifest(tuple(files))
    try:
        check_manifest(manifest)
    except InvalidManifest as error:
        raise InvalidManifestSent(str(error)) from error
    return manifest


def _index(path: str, size: int, sha256: str, stream: Stream) -> File:
    format, index = index_file(_reader(stream), size)
    tensor_ranges = [tensor.range for tensor in index.tensors]
    if sum(span.size for span in set(tensor_ranges)) > MAX_HASHED_TIMES * size:
        raise InvalidWeightFile(format.name, "its tensors overlap too much")
    spans = plan_chunks(size, [*tensor_ranges, *index.structure, *index.borders])
    wanted = list(dict.fromkeys([*spans, *(span for span in tensor_ranges if span.size)]))
    digests = dict(zip(wanted, _digests(stream, size, wanted), strict=True))
    return File(
        path=path,
        size=size,
        sha256=sha256,
        media_type=format.media_type,
        format=format.name,
        chunks=tuple(Chunk(digests[span], span.size) for span in spans),
        tensors=tuple(
            replace(tensor, digest=digests.get(tensor.range, EMPTY_DIGEST))
            for tensor in index.tensors
        ),
        structure=tuple(index.structure),
    )


def _digests(stream: Stream, size: int, wanted: Sequence[ByteRange]) -> list[str]:
    return digest_ranges(stream(0, size), wanted) if size else []


def _reader(stream: Stream) -> ReadRange:
    def read(start: int, end: int) -> bytes:
        return b"".join(stream(start, end)) if end > start else b""

    return read


def _stream(parts: Parts, row: UploadRow) -> Stream:
    if row.state == "stored":
        return _stored(parts, row.digest)
    upload = as_upload(row)
    return lambda start, end: parts.store.read_upload(upload, start, end)


def _stored(parts: Parts, digest: str) -> Stream:
    return lambda start, end: parts.store.read(digest, start, end)
