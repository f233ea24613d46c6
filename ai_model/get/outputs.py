"""What each file that a get writes is made of: literal bytes and ranges of the version's files.

Pure: the few bytes of structure that this needs (a header, a pickle, an index of
shards) come through a callable.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

from ai_model.errors import AiModelError, NotSupported
from ai_model.get.select import Chosen
from ai_model_format.byte_range import ByteRange
from ai_model_format.formats.interface import (
    InvalidWeightFile,
    Literal,
    Segment,
    SourceRange,
    SubsetNotPossible,
)
from ai_model_format.formats.named import format_named
from ai_model_format.formats.sharded import filter_index, parse_shard_index
from ai_model_format.manifest import File

ReadFile = Callable[[str, int, int], bytes]
"""``read(path, start, end)`` returns verified bytes of a file of the version."""


@dataclass(frozen=True)
class Output:
    """A file to write.

    Attributes:
        path: below the output directory.
        file: of the version that it comes from.
        segments: its bytes, one segment behind the other.
        complete: it is the version's file, byte by byte.
    """

    path: str
    file: File
    segments: tuple[Segment, ...]
    complete: bool

    @cached_property
    def size(self) -> int:
        """Bytes of the output."""
        return sum(_size_of(segment) for segment in self.segments)

    def runs(self) -> Iterator[tuple[int, ByteRange]]:
        """Yield (offset in the output, range of the version's file)."""
        for offset, segment in self._placed():
            if isinstance(segment, SourceRange) and segment.range.size:
                yield offset, segment.range

    def literals(self) -> Iterator[tuple[int, bytes]]:
        """Yield (offset in the output, bytes)."""
        for offset, segment in self._placed():
            if isinstance(segment, Literal) and segment.data:
                yield offset, segment.data

    def chunks(self) -> Iterator[tuple[int, int]]:
        """Yield (offset in the output, index of the chunk)."""
        starts = self.file.chunk_starts
        for offset, run in self.runs():
            for index in self.file.chunks_in(run):
                yield offset + starts[index] - run.start, index

    def _placed(self) -> Iterator[tuple[int, Segment]]:
        offset = 0
        for segment in self.segments:
            yield offset, segment
            offset += _size_of(segment)


def structure_of(chosen: Chosen) -> list[ByteRange]:
    """Return the ranges that have to be read before the output can be planned."""
    if chosen.shards is not None:
        return [ByteRange(0, chosen.file.size)] if chosen.file.size else []
    if chosen.tensors is None:
        return []
    return [part for part in chosen.file.structure if part.size]


def make_output(chosen: Chosen, read: ReadFile) -> Output:
    """Say what an output is made of.

    Args:
        chosen: file and tensors.
        read: answers within ``structure_of(chosen)``.

    Raises:
        NotSupported: the file's format has no subsets, or is not known here.
    """
    file = chosen.file
    if chosen.is_whole:
        whole = (SourceRange(ByteRange(0, file.size)),) if file.size else ()
        return Output(file.path, file, whole, complete=True)
    if chosen.shards is not None:
        data = _filtered(read(file.path, 0, file.size), chosen.shards)
        return Output(file.path, file, (Literal(data),), complete=False)
    segments = _subset(file, chosen.tensors or frozenset(), read)
    return Output(file.path, file, tuple(segments), complete=False)


def _filtered(data: bytes, taken: Sequence[Chosen]) -> bytes:
    """Return an index of shards with what was taken; one that cannot be read stays as it is."""
    try:
        index = parse_shard_index(data)
        shards = {PurePosixPath(shard.file.path).name: shard for shard in taken}
        names = {
            name
            for name, shard in index.weight_map.items()
            if shard in shards and name in shards[shard].names
        }
        tensors = {name: shard.file.tensors for name, shard in shards.items()}
        return filter_index(index, tensors, names)
    except InvalidWeightFile:
        return data


def _subset(file: File, names: Collection[str], read: ReadFile) -> list[Segment]:
    try:
        return format_named(file.format).subset(
            lambda start, end: read(file.path, start, end), file.size, file.tensors, names
        )
    except (LookupError, SubsetNotPossible) as error:
        raise NotSupported(
            f"Single layers of {file.path!r} cannot be written: {error}.",
            way_out="Get the whole file, without --layers.",
        ) from error
    except InvalidWeightFile as error:
        raise AiModelError(f"{file.path!r} does not fit its manifest: {error}.") from error


def _size_of(segment: Segment) -> int:
    return len(segment.data) if isinstance(segment, Literal) else segment.range.size
