"""What pieces are written to: open files, or memory for the few bytes of structure."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ai_model.errors import AiModelError, DiskFull
from ai_model.get.clone import BLOCK, MIN_SIZE, clone_range
from ai_model.get.follow import Follower, Followers
from ai_model.get.plan import Piece
from ai_model.get.writeback import MIN_FILE_SIZE, begin_writeback
from ai_model_format.digest import Digest


class Target(Protocol):
    """Bytes at offsets. Safe to use from threads on different ranges."""

    def write(self, offset: int, data: memoryview) -> None:
        """Write all of ``data``."""

    def settle(self, offset: int, size: int) -> None:
        """Know that a range holds its final bytes."""

    def read_into(self, offset: int, buffer: memoryview) -> bool:
        """Fill ``buffer``; ``False`` where there are not so many bytes."""


class MemoryTarget:
    """Bytes in memory."""

    def __init__(self, size: int) -> None:
        self.data = bytearray(size)

    def write(self, offset: int, data: memoryview) -> None:
        """Write all of ``data``."""
        self.data[offset : offset + len(data)] = data

    def settle(self, offset: int, size: int) -> None:
        """Nobody follows what is in memory."""

    def read_into(self, offset: int, buffer: memoryview) -> bool:
        """Fill ``buffer``."""
        buffer[:] = self.data[offset : offset + len(buffer)]
        return True


class FileTarget:
    """An open file.

    Attributes:
        path: its name, for errors.
    """

    def __init__(self, path: Path, *, writable: bool) -> None:
        self.path = path
        self._clones = True
        self._size = 0
        self._follower: Follower | None = None
        flags = os.O_RDWR | os.O_CREAT if writable else os.O_RDONLY
        self._descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)

    def resize(self, size: int) -> None:
        """Give the file its final size."""
        os.ftruncate(self._descriptor, size)
        self._size = size

    def follow(self, followers: Followers) -> None:
        """Have the file hashed while it is filled, so that ``digest`` has less to do."""
        self._follower = followers.add(self.read_into, self._size)

    def write(self, offset: int, data: memoryview) -> None:
        """Write all of ``data``; of a large file, let the disk begin, so that ``sync`` waits less.

        Raises:
            DiskFull: no room is left.
        """
        start, left = offset, data
        try:
            while left:
                written = os.pwrite(self._descriptor, left, start)
                start += written
                left = left[written:]
        except OSError as error:
            raise disk_trouble(self.path, error, needed=len(left)) from error
        if self._size >= MIN_FILE_SIZE:
            begin_writeback(self._descriptor, offset, len(data))

    def settle(self, offset: int, size: int) -> None:
        """Know that a range holds its final bytes."""
        if self._size >= MIN_FILE_SIZE:
            begin_writeback(self._descriptor, offset, size)  # it may have come in small writes
        if self._follower is not None:
            self._follower.settle(offset, size)

    def digest(self) -> Digest | None:
        """Return the digest of the file that is followed, once all of it is final."""
        return self._follower.finish() if self._follower is not None else None

    def read_into(self, offset: int, buffer: memoryview) -> bool:
        """Fill ``buffer``; ``False`` where the file ends before."""
        while buffer:
            count = os.preadv(self._descriptor, [buffer], offset)
            if not count:
                return False
            offset += count
            buffer = buffer[count:]
        return True

    def clone_from(self, source: "FileTarget", start: int, offset: int, size: int) -> bool:
        """Share bytes with another file where the file system can; say whether it did.

        After a first refusal it is not tried again.
        """
        if not self._clones or size < MIN_SIZE or (start - offset) % BLOCK:
            return False
        self._clones = clone_range(source._descriptor, start, self._descriptor, offset, size)
        return self._clones

    def sync(self) -> None:
        """Make the bytes durable.

        Raises:
            DiskFull: no room is left.
        """
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise disk_trouble(self.path, error, needed=1) from error

    def close(self) -> None:
        """Close the file; a second time does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def settle(piece: Piece, targets: Sequence[Target]) -> None:
    """Know that a piece lies in all its places and is right."""
    for place in piece.places:
        targets[place.output].settle(place.offset, piece.size)


def disk_trouble(path: Path, error: OSError, *, needed: int) -> AiModelError:
    """Return the sentence for a write that failed. Pure but for asking how much is free."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return DiskFull(path.parent, needed=needed, free=free_bytes(path.parent))
    return AiModelError(f"{path} cannot be written: {error.strerror}.")


def free_bytes(directory: Path) -> int:
    """Return how many bytes this user may still write to a directory's disk."""
    try:
        room = os.statvfs(directory)
    except OSError:
        return 0
    return room.f_bavail * room.f_frsize
