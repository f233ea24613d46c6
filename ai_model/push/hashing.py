"""All digests of a file from one pass over its bytes.

The file is read in pieces of 1 MiB that never cross a chunk's border. A piece is
hashed for its chunk by the thread that read it, then by one companion thread for the
spans (tensors of several chunks) it lies in and by another for the whole file: hashlib
lets go of the interpreter's lock, so all run at once. Memory is bounded by the pieces in
flight.
"""

import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
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
_PIECES_IN_FLIGHT = 8


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
    whole, buffers, open_spans = sha256(), _Buffers(), _Spans(spans)
    with ExitStack() as stack:
        companion = _Companion(lambda piece: whole.update(piece.data), buffers.give_back)
        feed = stack.enter_context(companion).feed
        if spans:
            feed = stack.enter_context(_Companion(_hash_for_spans, feed)).feed
        reader = _Reader(descriptor, buffers, feed, meter, stopped)
        digests = tuple(reader.hash_chunk(chunk, open_spans.around(chunk)) for chunk in chunks)
    return Digests(_name(whole), digests, open_spans.digests())


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


@dataclass(frozen=True, slots=True)
class _Piece:
    """Bytes of a file in a buffer that is used again, and the spans that they lie in."""

    buffer: bytearray
    size: int
    spans: Sequence["_Hash"]

    @property
    def data(self) -> memoryview:
        """The bytes. Whoever holds the piece reads them; only the reader of the file writes."""
        return memoryview(self.buffer)[: self.size]


class _Companion:
    """Does one thing with every piece, in a thread of its own, and passes it on."""

    def __init__(self, work: Callable[[_Piece], None], pass_on: Callable[[_Piece], None]) -> None:
        self._work = work
        self._pass_on = pass_on
        self._inbox: queue.SimpleQueue[_Piece | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work_off, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._inbox.put(None)
        self._thread.join()

    def feed(self, piece: _Piece) -> None:
        """Take a piece; they are worked on in this order."""
        self._inbox.put(piece)

    def _work_off(self) -> None:
        while (piece := self._inbox.get()) is not None:
            self._work(piece)
            self._pass_on(piece)


class _Buffers:
    """A few buffers that go round."""

    def __init__(self) -> None:
        self._free: queue.SimpleQueue[bytearray] = queue.SimpleQueue()
        self._made = 0

    def take(self) -> bytearray:
        """Return a buffer that nobody else uses, waiting for one when many are in flight."""
        if self._made < _PIECES_IN_FLIGHT and self._free.empty():
            self._made += 1
            return bytearray(PIECE_SIZE)
        return self._free.get()

    def give_back(self, piece: _Piece) -> None:
        """Take back the buffer of a piece."""
        self._free.put(piece.buffer)


class _Reader:
    """Reads ranges of a file piece by piece, each fed to the companions too."""

    def __init__(
        self,
        descriptor: int,
        buffers: _Buffers,
        feed: Callable[[_Piece], None],
        meter: Meter,
        stopped: threading.Event,
    ) -> None:
        self._descriptor = descriptor
        self._buffers = buffers
        self._feed = feed
        self._meter = meter
        self._stopped = stopped

    def hash_chunk(self, chunk: ByteRange, spans: Sequence["_Hash"]) -> Digest:
        """Return a chunk's digest, passing on its pieces with the spans around them."""
        hasher = sha256()
        for piece in self._read(chunk, spans):
            self._feed(piece)
            hasher.update(piece.data)
            self._meter.add(piece.size)
        return _name(hasher)

    def _read(self, wanted: ByteRange, spans: Sequence["_Hash"]) -> Iterator[_Piece]:
        for start in range(wanted.start, wanted.end, PIECE_SIZE):
            if self._stopped.is_set():
                raise Interrupted
            size = min(PIECE_SIZE, wanted.end - start)
            piece = _Piece(self._buffers.take(), size, spans)
            read_piece(self._descriptor, piece.data, start)
            yield piece


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


def _hash_for_spans(piece: _Piece) -> None:
    for span in piece.spans:
        span.update(piece.data)


def _name(hasher: "_Hash") -> Digest:
    return f"sha256:{hasher.hexdigest()}"
