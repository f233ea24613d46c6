"""One way to tell how far a push or a get is. Called from any thread."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Phase = Literal["hash", "upload", "verify", "reuse", "fetch"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a phase is.

    Attributes:
        phase: ``hash`` local files, ``upload``, ``verify`` (the service's, or of a directory),
            ``reuse`` bytes that lie here already, ``fetch``.
        done: bytes.
        total: bytes of the phase.
        note: a sentence worth showing once, such as that a request is tried again.
    """

    phase: Phase
    done: int
    total: int
    note: str = ""


OnProgress = Callable[[Progress], None]


class Meter:
    """Counts the bytes of one phase and reports every so many. Safe to call from threads."""

    def __init__(self, phase: Phase, total: int, report: OnProgress | None) -> None:
        self.done = 0
        self._phase: Phase = phase
        self._total = total
        self._report = report
        self._step = max(total // 200, 1)
        self._next = 0
        self._lock = threading.Lock()

    def add(self, size: int) -> None:
        """Count ``size`` more bytes, negative where bytes turned out wrong."""
        with self._lock:
            self.done += size
            if self._report is None or (self.done < self._next and self.done < self._total):
                return
            self._next = self.done + self._step
            self._report(Progress(self._phase, self.done, self._total))

    def note(self, sentence: str) -> None:
        """Pass on a sentence."""
        with self._lock:
            if self._report is not None:
                self._report(Progress(self._phase, self.done, self._total, sentence))
