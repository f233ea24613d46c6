"""Share a file's blocks with another file instead of copying them, where the file system can.

Btrfs, XFS and other file systems that copy on write do it in no time and without room. What
was shared stays as it is when the source is written to later.
"""

import fcntl
import os
import struct

BLOCK = 4096
MIN_SIZE = 64 * 1024
"""Below it, copying is as quick."""
_FICLONERANGE = 0x4020940D


def clone_range(source: int, start: int, target: int, offset: int, size: int) -> bool:
    """Make ``size`` bytes of a file those of another, whole blocks shared and the rest copied.

    Args:
        source: descriptor to take from.
        start: offset there.
        target: descriptor to write to.
        offset: offset there.
        size: bytes.

    Both offsets must be as far from the start of a block.

    Returns:
        ``False`` where the file system cannot; bytes may have been written nevertheless.
    """
    head = -start % BLOCK
    middle = (size - head) // BLOCK * BLOCK
    try:
        _share(source, start + head, target, offset + head, middle)
        return all(
            os.pwrite(target, os.pread(source, count, start + at), offset + at) == count
            for at, count in ((0, head), (head + middle, size - head - middle))
        )
    except OSError:
        return False


def _share(source: int, start: int, target: int, offset: int, size: int) -> None:
    fcntl.ioctl(target, _FICLONERANGE, struct.pack("=qQQQ", source, start, size, offset))
