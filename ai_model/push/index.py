"""From local files to a manifest: structure, chunks, digests.

Files are indexed and hashed several at a time; ``hashing`` reads each once.
"""

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ai_model.errors import FileChanged, PathRefused
from ai_model.parallel import run_parallel
from ai_model.progress import Meter, OnProgress
from ai_model.push.hashing import Digests, hash_file
from ai_model.push.scan import LocalFile
from ai_model_format.byte_range import ByteRange
from ai_model_format.chunks import plan_chunks
from ai_model_format.digest import EMPTY_DIGEST, Digest
from ai_model_format.formats.detect import index_file
from ai_model_format.formats.interface import Index, InvalidWeightFile, WeightFormat
from ai_model_format.manifest import Chunk, File, Manifest, Tensor

MAX_WORKERS = 4


@dataclass(frozen=True, slots=True)
class _Indexed:
    """A file whose structure is known and whose bytes are not hashed yet."""

    format: WeightFormat
    index: Index
    chunks: Sequence[ByteRange]
    spans: Sequence[ByteRange]


def build_manifest(files: Sequence[LocalFile], *, on_progress: OnProgress | None) -> Manifest:
    """Index and hash files, the largest first.

    Raises:
        PathRefused: a file breaks the rules of the format it claims.
        FileChanged: a file changed meanwhile.
    """
    meter = Meter("hash", sum(file.size for file in files), on_progress)
    stopped = threading.Event()
    done: dict[str, File] = {}

    def work(local: LocalFile) -> None:
        done[local.path] = _describe(local, meter, stopped)

    largest_first = sorted(files, key=lambda file: -file.size)
    workers = min(MAX_WORKERS, os.cpu_count() or 1, len(files))
    run_parallel(largest_first, work, workers=workers, stopped=stopped)
    return Manifest(tuple(done[path] for path in sorted(done)))


def _describe(local: LocalFile, meter: Meter, stopped: threading.Event) -> File:
    try:
        descriptor = os.open(local.source, os.O_RDONLY)
    except OSError as error:
        raise PathRefused(local.source, f"cannot be read: {error.strerror}") from error
    try:
        local.check_unchanged(descriptor)
        indexed = _index(local, descriptor)
        digests = hash_file(descriptor, indexed.chunks, indexed.spans, meter, stopped)
        local.check_unchanged(descriptor)
    except EOFError as error:
        raise FileChanged(local.source) from error
    finally:
        os.close(descriptor)
    return _file(local, indexed, digests)


def _index(local: LocalFile, descriptor: int) -> _Indexed:
    def read(start: int, end: int) -> bytes:
        data = os.pread(descriptor, end - start, start)
        if len(data) != end - start:
            raise EOFError
        return data

    try:
        format, index = index_file(read, local.size)
    except InvalidWeightFile as error:
        raise PathRefused(
            local.source,
            f"looks like {error.format} and is broken: {error.reason}",
            way_out="Write it anew, or leave it out.",
        ) from error
    borders = [tensor.range for tensor in index.tensors]
    chunks = plan_chunks(local.size, [*borders, *index.structure, *index.borders])
    whole = {(chunk.start, chunk.end) for chunk in chunks}
    spans = {span for span in borders if span.size and (span.start, span.end) not in whole}
    return _Indexed(format, index, chunks, sorted(spans))


def _file(local: LocalFile, indexed: _Indexed, digests: Digests) -> File:
    known: dict[ByteRange, Digest] = dict(zip(indexed.chunks, digests.chunks, strict=True))
    known.update(zip(indexed.spans, digests.spans, strict=True))
    return File(
        path=local.path,
        size=local.size,
        sha256=digests.whole,
        media_type=indexed.format.media_type,
        format=indexed.format.name,
        chunks=tuple(
            Chunk(digest, chunk.size)
            for digest, chunk in zip(digests.chunks, indexed.chunks, strict=True)
        ),
        tensors=tuple(_with_digest(tensor, known) for tensor in indexed.index.tensors),
        structure=tuple(indexed.index.structure),
    )


def _with_digest(tensor: Tensor, known: dict[ByteRange, Digest]) -> Tensor:
    return replace(tensor, digest=known[tensor.range] if tensor.range.size else EMPTY_DIGEST)
