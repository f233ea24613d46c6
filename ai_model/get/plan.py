"""From outputs to pieces, and from pieces to few HTTP requests. Pure.

A piece is one chunk and every place in the outputs that it is to be written to.
Requests end where chunks do, so that each chunk is verified within one answer.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from ai_model.get.outputs import Output
from ai_model_format.byte_range import ByteRange, merge_ranges
from ai_model_format.digest import Digest
from ai_model_format.manifest import File

LARGEST_REQUEST = 64 * 1024 * 1024
LAST_REQUEST = 16 * 1024 * 1024
SMALLEST_REQUEST = 4 * 1024 * 1024
MAX_GAP = 64 * 1024


class LayoutDoesNotFit(ValueError):
    """A layout has other sizes than the manifest."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a piece goes: an output and the offset in it."""

    output: int
    offset: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk that is wanted.

    Attributes:
        digest: of its bytes.
        size: bytes.
        file: of the version that holds it.
        start: offset in that file.
        places: where it goes.
    """

    digest: Digest
    size: int
    file: File
    start: int
    places: tuple[Place, ...]

    def tensors(self) -> list[str]:
        """Return the names of the tensors that share bytes with the piece."""
        end = self.start + self.size
        return [
            tensor.name
            for tensor in self.file.tensors
            if tensor.start < end and self.start < tensor.end
        ]


@dataclass(frozen=True, slots=True)
class Run:
    """Bytes of a file that lie in one object."""

    start: int
    object: Digest
    offset: int


@dataclass(frozen=True, slots=True)
class RangeRequest:
    """One HTTP request.

    Attributes:
        object: to ask for.
        pieces: (offset in the object, piece), in order, without overlaps.
    """

    object: Digest
    pieces: tuple[tuple[int, Piece], ...]


def pieces_of(outputs: Sequence[Output]) -> list[Piece]:
    """Return the chunks that the outputs are made of, each once."""
    places: dict[Digest, list[Place]] = {}
    origin: dict[Digest, tuple[File, int]] = {}
    for number, output in enumerate(outputs):
        for offset, index in output.chunks():
            digest = output.file.chunks[index].digest
            origin.setdefault(digest, (output.file, index))
            places.setdefault(digest, []).append(Place(number, offset))
    return [
        Piece(
            digest,
            file.chunks[index].size,
            file,
            file.chunk_starts[index],
            tuple(places[digest]),
        )
        for digest, (file, index) in origin.items()
    ]


def bytes_placed(pieces: Iterable[Piece]) -> int:
    """Return how many bytes pieces are in all their places."""
    return sum(piece.size * len(piece.places) for piece in pieces)


def runs_of(file: File, runs: Iterable[tuple[Digest, int, int, int]]) -> list[Run]:
    """Check and arrange a file's layout.

    Args:
        file: of the manifest.
        runs: (object, size of the object, offset, size), one behind the other.

    Raises:
        LayoutDoesNotFit: the runs do not make up the file.
    """
    arranged = []
    start = 0
    for digest, object_size, offset, size in runs:
        if size < 1 or offset < 0 or offset + size > object_size:
            raise LayoutDoesNotFit(f"a run of {file.path!r} lies outside of its object")
        arranged.append(Run(start, digest, offset))
        start += size
    if start != file.size:
        raise LayoutDoesNotFit(f"the layout has {start} bytes of {file.path!r}, not {file.size}")
    return arranged


def plan_requests(
    pieces: Sequence[Piece], layout: Mapping[str, Sequence[Run]], *, connections: int
) -> list[RangeRequest]:
    """Say which ranges of which objects bring the pieces.

    Neighbours are joined across gaps, so that in all at most 1% and 16 KiB more are received
    than is written: what is wanted in several places is received once, which pays for gaps too.
    A store spends less on few large requests, and so does the client, so they grow with what is
    wanted: a little is two to a connection, much is eight, as more connections may open meanwhile.
    Those at the end are half of a connection's share of what is left then, so that none is left
    alone with much.

    Raises:
        LayoutDoesNotFit: the layout lacks a file.
    """
    by_object: dict[Digest, list[tuple[int, Piece]]] = {}
    for piece in pieces:
        run = _run_of(piece, layout)
        offset = run.offset + piece.start - run.start
        by_object.setdefault(run.object, []).append((offset, piece))
    total = sum(piece.size for piece in pieces)
    written = bytes_placed(pieces)
    budget = written - total + written // 100 + 16 * 1024
    gap = widest_gap(by_object.values(), budget=budget)
    last = _between(SMALLEST_REQUEST, total // (2 * connections), LAST_REQUEST)
    first = _between(last, total // (8 * connections), LARGEST_REQUEST)

    def share(left: int) -> int:
        return _between(last, left // (2 * connections), first)

    return list(_cut(by_object, gap, share, left=total))


def widest_gap(objects: Iterable[Sequence[tuple[int, Piece]]], *, budget: int) -> int:
    """Return the widest gap to join across, so that all joined gaps fit the budget."""
    gaps: list[int] = []
    for placed in objects:
        ranges = merge_ranges((_range_of(item) for item in placed), max_gap=0)
        gaps += [after.start - before.end for before, after in pairwise(ranges)]
    gaps.sort()
    affordable = bisect_right(list(accumulate(gaps)), budget)
    while 0 < affordable < len(gaps) and gaps[affordable - 1] == gaps[affordable]:
        affordable -= 1  # of equally wide gaps, all or none are joined
    return min(gaps[affordable - 1], MAX_GAP) if affordable else 0


def _cut(
    objects: Mapping[Digest, list[tuple[int, Piece]]],
    gap: int,
    share: Callable[[int], int],
    *,
    left: int,
) -> Iterator[RangeRequest]:
    """Cut what lies in objects into requests of ``share`` of the bytes that are left."""
    size = share(left)
    for digest, placed in objects.items():
        group: list[tuple[int, Piece]] = []
        for offset, piece in sorted(placed, key=lambda item: item[0]):
            if group:
                start, end = group[0][0], group[-1][0] + group[-1][1].size
                if not 0 <= offset - end <= gap or offset + piece.size - start > size:
                    yield RangeRequest(digest, tuple(group))
                    group, size = [], share(left)
            group.append((offset, piece))
            left -= piece.size
        yield RangeRequest(digest, tuple(group))
        size = share(left)


def _between(least: int, wanted: int, most: int) -> int:
    return min(max(wanted, least), most)


def _run_of(piece: Piece, layout: Mapping[str, Sequence[Run]]) -> Run:
    runs = layout.get(piece.file.path)
    if not runs:
        raise LayoutDoesNotFit(f"the layout lacks {piece.file.path!r}")
    return runs[bisect_right(runs, piece.start, key=lambda run: run.start) - 1]


def _range_of(item: tuple[int, Piece]) -> ByteRange:
    return ByteRange(item[0], item[0] + item[1].size)
