"""Begins to write a file's bytes to the disk while more of them arrive.

A file is made durable before it gets its name. If the system is left to itself, it keeps
the bytes in memory until then, and a get waits for the disk after it waited for the network.
"""

from collections.abc import Callable
from functools import cache

MIN_FILE_SIZE = 64 * 1024 * 1024
"""Smaller files are written to the end soon enough."""
MIN_SIZE = 256 * 1024
_WRITE = 2  # SYNC_FILE_RANGE_WRITE: begin, do not wait

SyncFileRange = Callable[[int, int, int, int], int]


def begin_writeback(descriptor: int, offset: int, size: int) -> None:
    """Begin to write a range to the disk, where the system has a call for that.

    It is a hint: whether bytes arrived, and what went wrong, ``fsync`` tells.
    """
    sync_file_range = _sync_file_range()
    if sync_file_range is not None and size >= MIN_SIZE:
        sync_file_range(descriptor, offset, size, _WRITE)


@cache
def _sync_file_range() -> SyncFileRange | None:
    import ctypes  # lazy: only large files need it

    function = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if function is None:
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    found: SyncFileRange = function
    return found
