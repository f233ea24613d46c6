"""File operations that are on the disk when they return, and their errors as the store's.

Must not know what an object is.
"""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from storage.interface import ObjectNotFound, StoreError, StoreFull, StoreUnavailable

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_MISSING = {errno.ENOENT, errno.ENOTDIR}
_NO_FALLOCATE = {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}


@contextmanager
def store_errors() -> Iterator[None]:
    """Turn what the operating system refuses into what a store raises."""
    try:
        yield
    except OSError as error:
        raise _store_error(error) from error


def _store_error(error: OSError) -> StoreError:
    if error.errno in _FULL:
        return StoreFull(str(error))
    if error.errno in _MISSING:
        return ObjectNotFound(str(error))
    return StoreUnavailable(str(error))


@contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """Open a file for the length of a block; made files are readable by the group."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o640)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def locked(descriptor: int, operation: int) -> Iterator[None]:
    """Hold ``flock`` on an open file for the length of a block."""
    fcntl.flock(descriptor, operation)
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def write_at(descriptor: int, data: bytes | memoryview, offset: int) -> None:
    """Write all of ``data`` from ``offset`` on."""
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written


def reserve(descriptor: int, size: int) -> None:
    """Give a file its final size and its room on the disk, where the file system can.

    Raises:
        OSError: ``ENOSPC``, there is no room.
    """
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        if error.errno not in _NO_FALLOCATE:
            raise
        os.ftruncate(descriptor, size)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    with opened(folder, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        os.fsync(descriptor)


def sync_folders(folder: Path, root: Path) -> None:
    """Make the names in ``folder`` and in every folder above it, up to ``root``, durable."""
    sync_folder(folder)
    while folder != root:
        folder = folder.parent
        sync_folder(folder)
