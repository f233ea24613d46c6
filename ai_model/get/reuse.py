"""Copies chunks that lie on this machine, and checks chunks that lie in place, by hashing them."""

import threading
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from ai_model.get.fetch import BUFFER_SIZE
from ai_model.get.holdings import Holding
from ai_model.get.plan import Piece, Place
from ai_model.get.targets import FileTarget, Target, settle
from ai_model.parallel import run_parallel
from ai_model.progress import Meter
from ai_model.retry import Interrupted
from ai_model_format.digest import Digest, digest_from_raw

Sink = Callable[[int, memoryview], None]


class Reuser:
    """Reads local files, several at a time.

    Args:
        workers: how many threads read and hash.
        meter: told of every piece that was looked at, once.
        stopped: looked at between buffers.
    """

    def __init__(self, *, workers: int, meter: Meter, stopped: threading.Event) -> None:
        self._workers = workers
        self._meter = meter
        self._stopped = stopped
        self._local = threading.local()

    def in_place(
        self, wanted: Sequence[tuple[Place, Piece]], targets: Mapping[int, Target]
    ) -> set[Place]:
        """Return the places whose bytes are right already."""
        good: set[Place] = set()

        def work(item: tuple[Place, Piece]) -> None:
            place, piece = item
            if self._hash(targets[place.output], place.offset, piece, _nowhere):
                good.add(place)
            self._meter.add(piece.size)

        run_parallel(wanted, work, workers=self._workers, stopped=self._stopped)
        return good

    def copy(
        self,
        pieces: Sequence[Piece],
        holdings: Mapping[Digest, Sequence[Holding]],
        targets: Sequence[Target],
    ) -> list[Piece]:
        """Copy the pieces that are held somewhere.

        Returns:
            The pieces that are not, or whose bytes turned out to be others.
        """
        sources = _Sources()
        left: list[Piece] = []

        def work(piece: Piece) -> None:
            for holding in holdings.get(piece.digest, ()):
                if self._copy(piece, holding, sources, targets):
                    settle(piece, targets)
                    break
            else:
                left.append(piece)
            self._meter.add(piece.size)

        try:
            run_parallel(pieces, work, workers=self._workers, stopped=self._stopped)
        finally:
            sources.close()
        return left

    def _copy(
        self, piece: Piece, holding: Holding, sources: "_Sources", targets: Sequence[Target]
    ) -> bool:
        source = sources.open(holding.source)
        if source is None:
            return False

        if self._clone(piece, holding, source, targets):
            return True

        def write(done: int, data: memoryview) -> None:
            for place in piece.places:
                targets[place.output].write(place.offset + done, data)

        return self._hash(source, holding.offset, piece, write)

    def _clone(
        self, piece: Piece, holding: Holding, source: FileTarget, targets: Sequence[Target]
    ) -> bool:
        """Share the bytes instead, and hash what the targets hold by that: all of it counts."""
        places = [(place, targets[place.output]) for place in piece.places]
        return all(
            isinstance(target, FileTarget)
            and target.clone_from(source, holding.offset, place.offset, piece.size)
            for place, target in places
        ) and all(self._is_right(target, place.offset, piece) for place, target in places)

    def _is_right(self, target: Target, offset: int, piece: Piece) -> bool:
        return self._hash(target, offset, piece, _nowhere)

    def _hash(self, source: Target, offset: int, piece: Piece, sink: Sink) -> bool:
        """Hash a piece's bytes while passing them on, and say whether they are right."""
        hasher = sha256()
        buffer = self._buffer()
        for done in range(0, piece.size, BUFFER_SIZE):
            if self._stopped.is_set():
                raise Interrupted
            data = buffer[: min(BUFFER_SIZE, piece.size - done)]
            if not source.read_into(offset + done, data):
                return False
            hasher.update(data)
            sink(done, data)
        return digest_from_raw(hasher.digest()) == piece.digest

    def _buffer(self) -> memoryview:
        if not hasattr(self._local, "buffer"):
            self._local.buffer = memoryview(bytearray(BUFFER_SIZE))
        buffer: memoryview = self._local.buffer
        return buffer


class _Sources:
    """Local files that are copied from, each opened once."""

    def __init__(self) -> None:
        self._files: dict[str, FileTarget | None] = {}
        self._lock = threading.Lock()

    def open(self, path: str) -> FileTarget | None:
        """Return an open file, ``None`` where it cannot be opened."""
        with self._lock:
            if path not in self._files:
                try:
                    self._files[path] = FileTarget(Path(path), writable=False)
                except OSError:
                    self._files[path] = None
            return self._files[path]

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            if file is not None:
                file.close()


def _nowhere(_done: int, _data: memoryview) -> None:
    """Take bytes that only have to be hashed."""
