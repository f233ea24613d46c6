"""A limit on bytes a second, shared by every connection of a client, both ways."""

import re
import threading
import time
from collections.abc import Callable

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_RATE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?) ?((?:[kKMG]i?)?)(B|bit)?(?:/s)?", re.ASCII)
MIN_RATE = 1000
_BURST_S = 0.25
_MIN_PIECE = 4 * 1024

Wait = Callable[[float], object]


def parse_rate(text: str) -> int:
    """Return bytes a second from ``50MB``, ``50MB/s``, ``512KiB``, ``400Mbit`` or ``1000000``.

    ``k``, ``M`` and ``G`` are powers of 1000, ``Ki``, ``Mi`` and ``Gi`` of 1024; ``bit`` counts
    bits, all else bytes.

    Raises:
        ValueError: it is none of these, or less than ``MIN_RATE``.
    """
    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a rate such as 50MB, 512KiB or 400Mbit (a second)")
    amount, unit, kind = match.groups()
    scale = _UNITS[unit if unit.endswith("i") and unit != "ki" else unit.replace("K", "k")]
    rate = int(float(amount) * scale / (8 if kind == "bit" else 1))
    if rate < MIN_RATE:
        raise ValueError(f"{text!r} is less than {MIN_RATE} bytes a second")
    return rate


class Bandwidth:
    """A token bucket. Safe to use from threads.

    Args:
        rate: bytes a second; ``None`` for no limit.
        clock: seconds that only go forward.
    """

    def __init__(self, rate: int | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self._clock = clock
        self._lock = threading.Lock()
        self._free_at = 0.0

    def piece(self, size: int) -> int:
        """Return how many of ``size`` bytes to move at once, so that the pace stays even."""
        if self.rate is None:
            return size
        return min(size, max(int(self.rate * _BURST_S), _MIN_PIECE))

    def take(self, size: int, wait: Wait) -> None:
        """Take bytes from the bucket, waiting until they are due.

        Args:
            size: bytes.
            wait: called with the seconds to wait, such as ``threading.Event.wait``.
        """
        if self.rate is None:
            return
        with self._lock:
            now = self._clock()
            self._free_at = max(self._free_at, now - _BURST_S) + size / self.rate
            pause = self._free_at - now
        if pause > 0:
            wait(pause)
