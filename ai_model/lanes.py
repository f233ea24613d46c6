"""How many transfers run at once: a fixed number, or as many as the network gives more for.

It starts with ``START`` and doubles as long as that brings at least ``WORTH`` of the rate
before; once it does not, the number before stands. On a machine's own network four connections
fill the processor and more only get in each other's way; across 30 ms each waits most of its
time, so up to ``MOST`` go. A store that says it has too many requests halves the number.
"""

import threading
import time
from collections.abc import Callable

START = 4
MOST = 32
WORTH = 1.2
WINDOW_S = 0.25


class Lanes:
    """Decides for one transfer. Safe to use from threads.

    Args:
        fixed: always so many; ``None`` adapts.
        clock: seconds that only go forward.
    """

    def __init__(
        self, fixed: int | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.open = fixed or START
        self._adapts = fixed is None
        self._clock = clock
        self._lock = threading.Lock()
        self._before = (0, 0.0)
        self._settled = False
        self._begin(lead_s=0.0)

    def moved(self, size: int) -> None:
        """Count bytes that were moved, and open or close lanes by what they show."""
        if not self._adapts or self._settled:
            return
        with self._lock:
            elapsed_s = self._clock() - self._began
            self._bytes += size if elapsed_s > 0 else 0
            if elapsed_s >= WINDOW_S and not self._settled:
                self._judge(self._bytes / elapsed_s)

    def throttled(self) -> None:
        """Say that the other side has too many requests; from now on no more lanes open."""
        if not self._adapts:
            return
        with self._lock:
            self.open = max(self.open // 2, 1)
            self._settled = True

    def _judge(self, rate: float) -> None:
        lanes_before, rate_before = self._before
        if rate < rate_before * WORTH:
            self.open = lanes_before
            self._settled = True
            return
        self._before = (self.open, rate)
        self._settled = self.open == MOST
        self.open = min(self.open * 2, MOST)
        self._begin(lead_s=WINDOW_S)

    def _begin(self, *, lead_s: float) -> None:
        """Measure anew, once lanes that were just opened had time to get going."""
        self._began = self._clock() + lead_s
        self._bytes = 0
