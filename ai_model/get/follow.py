"""Hashes files from their first byte to their last while others fill them in any order."""

import heapq
import threading
from collections.abc import Callable
from hashlib import sha256
from typing import Self

from ai_model.errors import AiModelError
from ai_model_format.digest import Digest

BUFFER_SIZE = 1024 * 1024

ReadInto = Callable[[int, memoryview], bool]


class Follower:
    """The digest of one file that is still being written. Safe to use from threads.

    Args:
        read_into: fills a buffer from an offset of the file; ``False`` where it ends before.
        size: bytes of the file.
        changed: notified when there is more to hash.
    """

    def __init__(
        self, read_into: ReadInto, size: int, changed: threading.Condition | None = None
    ) -> None:
        self._read_into = read_into
        self._size = size
        self._changed = changed or threading.Condition()
        self._hasher = sha256()
        self._hashing = threading.Lock()
        self._done = 0
        self._final = 0
        self._apart: list[tuple[int, int]] = []

    @property
    def is_behind(self) -> bool:
        """Whether bytes can be hashed: they are final, and so are all before them."""
        return self._done < self._final

    def settle(self, offset: int, size: int) -> None:
        """Know that a range holds its final bytes."""
        with self._changed:
            heapq.heappush(self._apart, (offset, offset + size))
            while self._apart and self._apart[0][0] <= self._final:
                self._final = max(self._final, heapq.heappop(self._apart)[1])
            self._changed.notify()

    def catch_up(self, buffer: memoryview) -> None:
        """Hash a buffer's worth of what is final.

        Raises:
            AiModelError: the file is shorter.
            OSError: it cannot be read.
        """
        with self._hashing:
            data = buffer[: min(self._final - self._done, len(buffer))]
            if not self._read_into(self._done, data):
                raise AiModelError("A file became shorter while it was written.")
            self._hasher.update(data)
            self._done += len(data)

    def finish(self) -> Digest:
        """Know that every byte is final; hash what is left and return the digest of them all.

        Raises:
            AiModelError: the file is shorter.
            OSError: it cannot be read.
        """
        self.settle(0, self._size)
        buffer = memoryview(bytearray(BUFFER_SIZE))
        while self.is_behind:
            self.catch_up(buffer)
        return f"sha256:{self._hasher.hexdigest()}"


class Followers:
    """Has one thread follow any number of files. Use it as a context manager.

    What it does not come to, or cannot read, is left to ``Follower.finish``.
    """

    def __init__(self) -> None:
        self._all: list[Follower] = []
        self._stopped = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._follow, name="follow", daemon=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def add(self, read_into: ReadInto, size: int) -> Follower:
        """Follow one more file."""
        follower = Follower(read_into, size, self._changed)
        with self._changed:
            self._all.append(follower)
            if self._thread.ident is None:
                self._thread.start()
        return follower

    def _follow(self) -> None:
        buffer = memoryview(bytearray(BUFFER_SIZE))
        while follower := self._next():
            try:
                follower.catch_up(buffer)
            except (AiModelError, OSError):
                self._drop(follower)

    def _next(self) -> Follower | None:
        """Wait for a file that can be hashed further; ``None`` at the end."""
        with self._changed:
            while not self._stopped:
                for follower in self._all:
                    if follower.is_behind:
                        return follower
                self._changed.wait()
            return None

    def _drop(self, follower: Follower) -> None:
        with self._changed:
            self._all.remove(follower)
