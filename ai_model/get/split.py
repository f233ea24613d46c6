"""Takes the bytes of an answer apart into the pieces it brings. Pure.

Pieces are often much smaller than what a connection brings at once: hashed one by one but
written together, they cost little more than large ones.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from ai_model.get.plan import Piece, Place
from ai_model_format.digest import digest_from_raw


@dataclass(slots=True)
class Write:
    """Bytes that go to one place, by where they lie in what was taken.

    Attributes:
        place: of the first byte.
        begin: first byte.
        end: behind the last byte.
    """

    place: Place
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A piece whose last byte was taken, and whether its digest is right."""

    offset: int
    piece: Piece
    good: bool


class Splitter:
    """Knows which bytes come next.

    Args:
        pieces: (offset in the object, piece), in order, without overlaps.
        start: offset in the object of the answer's first byte.
    """

    def __init__(self, pieces: Iterable[tuple[int, Piece]], *, start: int) -> None:
        self._pieces = deque(pieces)
        self._at = start
        self._hasher = sha256()

    def take(self, data: memoryview) -> tuple[list[Write], list[Ended]]:
        """Take the next bytes; say where they go and which pieces they end.

        What lies between pieces goes nowhere.
        """
        writes: list[Write] = []
        ended: list[Ended] = []
        begin = 0
        while self._pieces and begin < len(data):
            offset, piece = self._pieces[0]
            begin = max(begin, offset - self._at)
            end = min(len(data), offset + piece.size - self._at)
            if begin >= end:
                break
            self._hasher.update(data[begin:end])  # while it is hot in the processor's cache
            _add(writes, piece, self._at + begin - offset, begin, end)
            begin = end
            if self._at + end == offset + piece.size:
                ended.append(self._end())
        self._at += len(data)
        return writes, ended

    def _end(self) -> Ended:
        offset, piece = self._pieces.popleft()
        good = digest_from_raw(self._hasher.digest()) == piece.digest
        self._hasher = sha256()
        return Ended(offset, piece, good)


def _add(writes: list[Write], piece: Piece, inside: int, begin: int, end: int) -> None:
    """Add where bytes of a piece go, to the write before where they go on from there."""
    if len(piece.places) == 1 and writes:
        place, last = piece.places[0], writes[-1]
        follows = last.place.offset + last.end - last.begin == place.offset + inside
        if last.end == begin and last.place.output == place.output and follows:
            last.end = end
            return
    writes += [Write(Place(p.output, p.offset + inside), begin, end) for p in piece.places]
