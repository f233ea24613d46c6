"""Check that bytes are what a digest says, in one pass and in bounded memory.

The whole object and its chunks are hashed by threads of their own (``hashlib``
lets go of the GIL), each piece while it is hot in the cache. Knows neither stores
nor uploads: bytes come as an iterable of pieces.
"""

import hashlib
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from queue import Queue
from typing import Literal

from ai_model_format.byte_range import ByteRange
from ai_model_format.digest import Digest
from ai_model_format.manifest import Chunk

QUEUED_PIECES = 4

Kind = Literal["object", "chunk", "range"]


class IntegrityError(Exception):
    """Bytes are not what their digest says.

    Attributes:
        kind: what was wrong: the whole ``object``, a ``chunk`` or an extra ``range``.
        index: of the chunk or range among those given; 0 for the object.
        range: where it lies in the object.
        expected: the digest it should have.
        actual: the digest it has; empty where the bytes ended too early or went on too long.
    """

    def __init__(
        self, kind: Kind, index: int, span: ByteRange, expected: Digest, actual: Digest
    ) -> None:
        self.kind, self.index, self.range = kind, index, span
        self.expected, self.actual = expected, actual
        found = f"has the digest {actual}" if actual else "has another size"
        super().__init__(
            f"{kind} {index} (bytes {span.start} to {span.end}) {found}, expected {expected}"
        )


@dataclass(frozen=True, slots=True)
class Expected:
    """A range of an object and the digest it should have; ``index`` counts within its kind."""

    kind: Kind
    index: int
    range: ByteRange
    digest: Digest


class RangeHasher:
    """Hash ranges of one stream, which may overlap, as its pieces pass by.

    Memory is one hash state for each range that is open at once.

    Args:
        ranges: in any order.
        on_digest: called with a range's index in ``ranges`` and its digest, as soon as known.
    """

    def __init__(
        self, ranges: Sequence[ByteRange], on_digest: Callable[[int, Digest], None]
    ) -> None:
        self._ranges = ranges
        self._on_digest = on_digest
        self._waiting = sorted(range(len(ranges)), key=lambda i: ranges[i].start, reverse=True)
        self._open: list[tuple[int, hashlib._Hash]] = []
        self._offset = 0
        self._advance(b"")

    @property
    def unfinished(self) -> list[int]:
        """Indices of the ranges whose last byte has not passed yet."""
        return [index for index, _ in self._open] + self._waiting[::-1]

    def update(self, piece: bytes | memoryview) -> None:
        """Take the next bytes of the stream."""
        view = memoryview(piece)
        while view:
            step = min(len(view), self._next_border() - self._offset)
            self._advance(view[:step])
            view = view[step:]

    def _next_border(self) -> int:
        borders = [self._ranges[index].end for index, _ in self._open]
        if self._waiting:
            borders.append(self._ranges[self._waiting[-1]].start)
        return min(borders, default=2**63)

    def _advance(self, step: bytes | memoryview) -> None:
        for _, state in self._open:
            state.update(step)
        self._offset += len(step)
        self._start_ranges()
        still_open = []
        for index, state in self._open:
            if self._ranges[index].end > self._offset:
                still_open.append((index, state))
            else:
                self._on_digest(index, "sha256:" + state.hexdigest())
        self._open = still_open

    def _start_ranges(self) -> None:
        while self._waiting and self._ranges[self._waiting[-1]].start == self._offset:
            self._open.append((self._waiting.pop(), hashlib.sha256()))


class Verifier:
    """Compare the ranges of one stream with the digests they should have. Does no I/O."""

    def __init__(self, expected: Sequence[Expected]) -> None:
        self._expected = _by_range(expected)
        self._hasher = RangeHasher([group[0].range for group in self._expected], self._compare)

    def update(self, piece: bytes | memoryview) -> None:
        """Take the next bytes of the stream.

        Raises:
            IntegrityError: they end a range that has another digest.
        """
        self._hasher.update(piece)

    def finish(self) -> None:
        """Say that the stream has ended.

        Raises:
            IntegrityError: it ended before a range did.
        """
        for index in self._hasher.unfinished[:1]:
            first = self._expected[index][0]
            raise IntegrityError(first.kind, first.index, first.range, first.digest, "")

    def _compare(self, index: int, actual: Digest) -> None:
        for wanted in self._expected[index]:
            if wanted.digest != actual:
                raise IntegrityError(wanted.kind, wanted.index, wanted.range, wanted.digest, actual)


def verify(
    pieces: Iterable[bytes],
    *,
    size: int,
    digest: Digest | None,
    chunks: Sequence[Chunk] = (),
    extra: Sequence[tuple[ByteRange, Digest]] = (),
    progress: Callable[[int], None] | None = None,
) -> None:
    """Check an object's bytes against its digest, its chunks' and those of further ranges.

    Every range is hashed once however many digests are expected of it; ranges in
    ``extra`` that overlap are hashed each on its own, so the caller bounds their sum.

    Args:
        pieces: the object from its first byte to its last.
        size: bytes of the object.
        digest: of the whole object; ``None`` where it is known already.
        chunks: in order; they tile the object from its first byte.
        extra: ranges of the object, such as tensors longer than a chunk.
        progress: called with the number of bytes of each piece.

    Raises:
        IntegrityError: the first chunk or range that is wrong, else the object; also when
            the bytes are fewer or more than ``size``.
    """
    whole, parts = _plan(size, digest, chunks, extra)
    threads = [_VerifierThread(Verifier(wanted)) for wanted in (parts, whole) if wanted]
    span = ByteRange(0, size)
    seen = 0
    try:
        for piece in pieces:
            seen += len(piece)
            if seen > size:
                raise IntegrityError("object", 0, span, digest or "", "")
            for thread in threads:
                thread.update(piece)
            if progress:
                progress(len(piece))
    finally:
        for thread in threads:
            thread.join()
    for thread in threads:
        thread.finish()
    if seen != size:
        raise IntegrityError("object", 0, span, digest or "", "")


def digest_ranges(pieces: Iterable[bytes], ranges: Sequence[ByteRange]) -> list[Digest]:
    """Return the digest of each range of a stream, in the order of ``ranges``.

    Raises:
        ValueError: the stream ends before a range does.
    """
    digests: dict[int, Digest] = {}
    hasher = RangeHasher(ranges, digests.__setitem__)
    for piece in pieces:
        hasher.update(piece)
    if len(digests) < len(ranges):
        raise ValueError(f"the stream ends before byte {ranges[hasher.unfinished[0]].end}")
    return [digests[index] for index in range(len(ranges))]


class _VerifierThread:
    """A ``Verifier`` fed from another thread through a short queue."""

    def __init__(self, verifier: Verifier) -> None:
        self._verifier = verifier
        self._queue: Queue[bytes | None] = Queue(QUEUED_PIECES)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="verify", daemon=True)
        self._thread.start()

    def update(self, piece: bytes) -> None:
        if self._error:
            raise self._error
        self._queue.put(piece)

    def join(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def finish(self) -> None:
        if self._error:
            raise self._error
        self._verifier.finish()

    def _run(self) -> None:
        while (piece := self._queue.get()) is not None:
            if self._error:
                continue  # only drain, so that the feeding thread never waits
            try:
                self._verifier.update(piece)
            except BaseException as error:  # noqa: BLE001 - it is raised in the feeding thread
                self._error = error


def _plan(
    size: int,
    digest: Digest | None,
    chunks: Sequence[Chunk],
    extra: Sequence[tuple[ByteRange, Digest]],
) -> tuple[list[Expected], list[Expected]]:
    """Return what is expected of the whole object, and what of its parts."""
    expected = [Expected("object", 0, ByteRange(0, size), digest)] if digest else []
    start = 0
    for index, chunk in enumerate(chunks):
        span = ByteRange(start, start + chunk.size)
        expected.append(Expected("chunk", index, span, chunk.digest))
        start = span.end
    expected += [Expected("range", i, span, wanted) for i, (span, wanted) in enumerate(extra)]
    everything = ByteRange(0, size)
    whole = [wanted for wanted in expected if wanted.range == everything]
    return whole, [wanted for wanted in expected if wanted.range != everything]


def _by_range(expected: Sequence[Expected]) -> list[list[Expected]]:
    groups: dict[ByteRange, list[Expected]] = {}
    for wanted in expected:
        groups.setdefault(wanted.range, []).append(wanted)
    return list(groups.values())
