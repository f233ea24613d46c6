"""Hashes a file from its first byte to its last while others fill it in any order."""

import heapq
import threading
from collections.abc import Callable
from hashlib import sha256

from ai_model.errors import AiModelError
from ai_model_format.digest import Digest

BUFFER_SIZE = 1024 * 1024

ReadInto = Callable[[int, memoryview], bool]


class Follower:
    """The digest of a file that is still being written. Safe to use from threads.

    A thread of its own follows the bytes that are final without a gap before them, so that
    little is left to hash when the last of them arrives.

    Args:
        read_into: fills a buffer from an offset of the file; ``False`` where it ends before.
        size: bytes of the file.
    """

    def __init__(self, read_into: ReadInto, size: int) -> None:
        self._read_into = read_into
        self._size = size
        self._hasher = sha256()
        self._final = 0
        self._apart: list[tuple[int, int]] = []
        self._given_up = False
        self._failure: BaseException | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._follow, name="follow", daemon=True)
        self._thread.start()

    def settle(self, offset: int, size: int) -> None:
        """Know that a range holds its final bytes. Ranges do not overlap."""
        with self._changed:
            heapq.heappush(self._apart, (offset, offset + size))
            while self._apart and self._apart[0][0] <= self._final:
                self._final = max(self._final, heapq.heappop(self._apart)[1])
            self._changed.notify()

    def finish(self) -> Digest:
        """Know that every byte is final; return the digest of them all.

        Raises:
            AiModelError: the file is shorter.
            OSError: it cannot be read.
        """
        self.settle(0, self._size)
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return f"sha256:{self._hasher.hexdigest()}"

    def give_up(self) -> None:
        """Stop following, without a digest."""
        with self._changed:
            self._given_up = True
            self._changed.notify()
        self._thread.join()

    def _follow(self) -> None:
        try:
            self._hash()
        except BaseException as failure:  # noqa: BLE001 - raised where the digest is asked for
            self._failure = failure

    def _hash(self) -> None:
        buffer = memoryview(bytearray(BUFFER_SIZE))
        done = 0
        while done < self._size:
            data = buffer[: self._wait_behind(done)]
            if not data:
                return
            if not self._read_into(done, data):
                raise AiModelError("A file became shorter while it was written.")
            self._hasher.update(data)
            done += len(data)

    def _wait_behind(self, done: int) -> int:
        """Wait for final bytes; return how many to hash next, 0 where it is given up."""
        with self._changed:
            self._changed.wait_for(lambda: self._final > done or self._given_up)
            return 0 if self._given_up else min(self._final - done, BUFFER_SIZE)
