"""Bars on stderr while a push or a get runs, and only on a terminal."""

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from ai_model_cli.text import human_size, printable

if TYPE_CHECKING:
    from ai_model import Progress

_VERBS = {
    "hash": "Hashing",
    "upload": "Uploading",
    "verify": "Verifying",
    "reuse": "Reusing",
    "fetch": "Fetching",
}
_WIDTH = 24
_REDRAW_S = 0.1


class Bars:
    """Shows the phase that began last; notes always, bars only where stderr is a terminal.

    Call it from any thread. At its end it wipes the bar, so that only the answer stays.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._draws = self._stream.isatty()
        self._lock = threading.Lock()
        self._began: dict[str, float] = {}
        self._drawn = 0.0

    def __call__(self, progress: "Progress") -> None:
        """Take the news."""
        with self._lock:
            if progress.note:
                self._print(f"{self._wipe()}{printable(progress.note)}\n")
            if self._draws and progress.total:
                self._draw(progress, time.monotonic())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._print(self._wipe())
            self._draws = False

    def _draw(self, progress: "Progress", now: float) -> None:
        phase, is_done = progress.phase, progress.done >= progress.total
        if phase not in self._began:
            self._began[phase], self._drawn = now, 0.0
        is_last = phase == next(reversed(self._began))
        if is_last and (now - self._drawn >= _REDRAW_S or is_done):
            self._drawn = now
            self._print(self._wipe() + bar(progress, now - self._began[phase]))
        if is_done:
            del self._began[phase]
            self._drawn = 0.0

    def _wipe(self) -> str:
        return "\r\x1b[K" if self._draws else ""

    def _print(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def bar(progress: "Progress", elapsed_s: float) -> str:
    """Return one line: verb, bar, bytes and bytes a second. Pure."""
    done = min(max(progress.done, 0), progress.total)
    filled = _WIDTH * done // progress.total
    rate = human_size(int(done / elapsed_s)) if elapsed_s > _REDRAW_S else "-"
    return (
        f"{_VERBS[progress.phase]:9} [{'#' * filled}{'.' * (_WIDTH - filled)}]"
        f" {human_size(done)} of {human_size(progress.total)}, {rate}/s"
    )
