"""Which chunks are missing, and where a file's bytes lie once they are not. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from ai_model_format.byte_range import ByteRange
from ai_model_format.chunks import WORTH_SHARING
from ai_model_format.digest import Digest
from ai_model_format.manifest import Chunk, File, Manifest
from ai_model_format.wire import MissingChunks


@dataclass(frozen=True, slots=True)
class Location:
    """Where a chunk lies: an object (by its row's id) and the offset in it."""

    object_id: int
    start: int


Run = tuple[int, int, int]
"""Object id, offset, size."""


def missing_ranges(file: File, known: Callable[[Digest], bool]) -> list[tuple[int, int]]:
    """Return half-open ranges of the indices of a file's chunks that must be sent."""
    lacks = [not known(chunk.digest) for chunk in file.chunks]
    known_size = sum(c.size for c, lack in zip(file.chunks, lacks, strict=True) if not lack)
    if any(lacks) and known_size < file.size * WORTH_SHARING:
        return [(0, len(lacks))]
    ranges = []
    for lack, group in groupby(range(len(lacks)), key=lacks.__getitem__):
        indices = list(group)
        if lack:
            ranges.append((indices[0], indices[-1] + 1))
    return ranges


def missing_chunks(
    manifest: Manifest, known: Callable[[Digest], bool], known_files: Iterable[Digest]
) -> list[MissingChunks]:
    """Return what must be sent of each file; a file that is an object itself is known whole."""
    whole = set(known_files)
    found = (
        MissingChunks(path=file.path, ranges=missing_ranges(file, known))
        for file in manifest.files
        if file.sha256 not in whole
    )
    return [missing for missing in found if missing.ranges]


def missing_size(manifest: Manifest, missing: Sequence[MissingChunks]) -> int:
    """Return the bytes of the chunks in ``missing``."""
    files = {file.path: file for file in manifest.files}
    return sum(
        files[entry.path].chunk_starts[last] - files[entry.path].chunk_starts[first]
        for entry in missing
        for first, last in entry.ranges
    )


def lay_out(file: File, locations: Mapping[Digest, Sequence[Location]]) -> list[Run]:
    """Return where a file's bytes lie, in as few runs as following each chunk's neighbour gives.

    Args:
        file: the file.
        locations: of each of its chunks, the preferred one first.

    Raises:
        KeyError: a chunk has no location.
    """
    runs: list[Run] = []
    for chunk in file.chunks:
        candidates = locations[chunk.digest]
        if runs:
            object_id, start, size = runs[-1]
            if Location(object_id, start + size) in candidates:
                runs[-1] = (object_id, start, size + chunk.size)
                continue
            candidates = sorted(candidates, key=lambda at: at.object_id != object_id)
        runs.append((candidates[0].object_id, candidates[0].start, chunk.size))
    return runs


def long_tensors(file: File) -> list[tuple[str, ByteRange, Digest]]:
    """Return name, range and digest of the tensors that no single chunk's digest vouches for."""
    borders = file.chunk_borders
    return [
        (tensor.name, tensor.range, tensor.digest)
        for tensor in file.tensors
        if tensor.start < tensor.end and borders[tensor.end] - borders[tensor.start] > 1
    ]


def hashing_cost(file: File) -> int:
    """Return the bytes that hashing the long tensors takes; views can make it exceed the file."""
    return sum(span.size for span in {span for _, span, _ in long_tensors(file)})


def chunk_offsets(chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, int]]:
    """Yield chunks that lie one behind the other, each with its offset."""
    offset = 0
    for chunk in chunks:
        yield chunk, offset
        offset += chunk.size
