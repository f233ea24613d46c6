"""Take memory, have every page of it backed, and give it back: ``python touch.py BYTES``.

A virtual machine with a balloon hands free memory back to its host after some seconds; the first
to use a page after that waits for the host, which costs several times what writing it does.
"""

import mmap
import sys
from contextlib import suppress

POPULATE_WRITE = 23
"""``MADV_POPULATE_WRITE`` of Linux 5.14, for which Python has no name."""


def touch(size: int) -> None:
    """Have ``size`` bytes of free memory backed by the machine below."""
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        for advice in (mmap.MADV_HUGEPAGE, POPULATE_WRITE):
            with suppress(OSError):  # a kernel without it
                memory.madvise(advice)


if __name__ == "__main__":
    touch(int(sys.argv[1]))
