"""All digests of a file from one pass over its bytes.

The file is read in pieces of 1 MiB that never cross a chunk's border. A piece is
hashed for its chunk and for the spans (tensors of several chunks) it lies in by the
thread that read it, and for the whole file by a companion thread: hashlib lets go of
the interpreter's lock, so both run at once. Memory is bounded by the pieces in flight.
"""

import os
import queue
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Self

from ai_model.progress import Meter
from ai_model.retry import Interrupted
from ai_model_format.byte_range import ByteRange
from ai_model_format.digest import Digest

if TYPE_CHECKING:
    from hashlib import _Hash

PIECE_SIZE = 1024 * 1024
_PIECES_IN_FLIGHT = 6


@dataclass(frozen=True, slots=True)
class Digests:
    """Digests of a file: of the whole, of each chunk, of each span."""

    whole: Digest
    chunks: tuple[Digest, ...]
    spans: tuple[Digest, ...]


def hash_file(
    descriptor: int,
    chunks: Sequence[ByteRange],
    spans: Sequence[ByteRange],
    meter: Meter,
    stopped: threading.Event,
) -> Digests:
    """Hash an open file.

    Args:
        descriptor: of the file.
        chunks: tile the file, in order.
        spans: further ranges to hash, sorted, starting and ending where chunks do.
        meter: told of every piece.
        stopped: looked at between pieces.

    Raises:
        EOFError: the file is shorter than its chunks.
        Interrupted: ``stopped`` was set.
    """
    with _Companion() as whole:
        pieces = _Pieces(descriptor, whole, meter, stopped)
        open_spans = _Spans(spans)
        digests = tuple(_hash_chunk(chunk, open_spans.around(chunk), pieces) for chunk in chunks)
    return Digests(_name(whole.hasher), digests, open_spans.digests())


def read_piece(descriptor: int, buffer: memoryview, offset: int) -> None:
    """Fill ``buffer`` from an open file.

    Raises:
        EOFError: the file ends before.
    """
    filled = 0
    while filled < len(buffer):
        count = os.preadv(descriptor, [buffer[filled:]], offset + filled)
        if not count:
            raise EOFError
        filled += count


def _hash_chunk(chunk: ByteRange, around: Sequence["_Hash"], pieces: "_Pieces") -> Digest:
    hasher = sha256()
    for piece in pieces.read(chunk):
        hasher.update(piece)
        for span in around:
            span.update(piece)
    return _name(hasher)


class _Companion:
    """Hashes the whole file in a thread of its own."""

    def __init__(self) -> None:
        self.hasher = sha256()
        self._free: queue.SimpleQueue[bytearray] = queue.SimpleQueue()
        self._full: queue.SimpleQueue[tuple[bytearray, int] | None] = queue.SimpleQueue()
        self._made = 0
        self._thread = threading.Thread(target=self._work_off, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._full.put(None)
        self._thread.join()

    def buffer(self) -> bytearray:
        """Return a buffer that nobody else uses, waiting for one when many are in flight."""
        if self._made < _PIECES_IN_FLIGHT and self._free.empty():
            self._made += 1
            return bytearray(PIECE_SIZE)
        return self._free.get()

    def feed(self, buffer: bytearray, size: int) -> None:
        """Hash the start of a buffer. The caller may go on reading it, not write to it."""
        self._full.put((buffer, size))

    def _work_off(self) -> None:
        while (piece := self._full.get()) is not None:
            buffer, size = piece
            self.hasher.update(memoryview(buffer)[:size])
            self._free.put(buffer)


class _Pieces:
    """Reads ranges of a file piece by piece, each fed to the companion too."""

    def __init__(
        self, descriptor: int, whole: _Companion, meter: Meter, stopped: threading.Event
    ) -> None:
        self._descriptor = descriptor
        self._whole = whole
        self._meter = meter
        self._stopped = stopped

    def read(self, wanted: ByteRange) -> Iterator[memoryview]:
        for start in range(wanted.start, wanted.end, PIECE_SIZE):
            if self._stopped.is_set():
                raise Interrupted
            size = min(PIECE_SIZE, wanted.end - start)
            buffer = self._whole.buffer()
            piece = memoryview(buffer)[:size]
            read_piece(self._descriptor, piece, start)
            self._whole.feed(buffer, size)
            yield piece
            self._meter.add(size)


class _Spans:
    """The hashes of ranges that cover several chunks, fed as their chunks go by."""

    def __init__(self, spans: Sequence[ByteRange]) -> None:
        self._spans = spans
        self._hashers = [sha256() for _ in spans]
        self._next = 0
        self._open: list[int] = []

    def around(self, chunk: ByteRange) -> list["_Hash"]:
        """Return the hashes of the spans that hold ``chunk``; chunks come in order."""
        while self._next < len(self._spans) and self._spans[self._next].start <= chunk.start:
            self._open.append(self._next)
            self._next += 1
        self._open = [at for at in self._open if self._spans[at].end > chunk.start]
        return [self._hashers[at] for at in self._open]

    def digests(self) -> tuple[Digest, ...]:
        """Return the digest of each span."""
        return tuple(_name(hasher) for hasher in self._hashers)


def _name(hasher: "_Hash") -> Digest:
    return f"sha256:{hasher.hexdigest()}"
