"""Work in threads that ends together: the first failure stops the rest."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from ai_model.retry import Interrupted

Task = TypeVar("Task")
_GRACE_S = 5.0
_LOOK_S = 0.1


def run_parallel(
    tasks: Iterable[Task],
    work: Callable[[Task], None],
    *,
    workers: int | Callable[[], int],
    stopped: threading.Event,
) -> None:
    """Call ``work`` on every task in up to ``workers`` threads; a callable may change its mind.

    Tasks are drawn one at a time when a thread is free, so a lazy iterable stays lazy.
    On a failure or Ctrl-C ``stopped`` is set; long work looks at it now and then.

    Raises:
        BaseException: the first that a task raised, or ``KeyboardInterrupt``.
    """
    shared = _Shared(iter(tasks), stopped, workers if callable(workers) else lambda: workers)
    threads: list[threading.Thread] = []
    try:
        while threads := [thread for thread in threads if thread.is_alive()] + shared.new(work):
            threads[0].join(_LOOK_S)  # in pieces, so that Ctrl-C is noticed
    except BaseException:
        stopped.set()
        _join_for(threads, _GRACE_S)
        raise
    if shared.failure is not None:
        raise shared.failure


class _Shared(Generic[Task]):
    """What the threads of one run have in common."""

    def __init__(
        self, tasks: Iterator[Task], stopped: threading.Event, wanted: Callable[[], int]
    ) -> None:
        self.failure: BaseException | None = None
        self._tasks = tasks
        self._stopped = stopped
        self._wanted = wanted
        self._active = 0
        self._drained = False
        self._lock = threading.Lock()

    def new(self, work: Callable[[Task], None]) -> list[threading.Thread]:
        """Start the threads that are missing while there are tasks."""
        threads = []
        while not (self._drained or self._stopped.is_set()) and self._active < self._most():
            with self._lock:
                self._active += 1
            threads.append(threading.Thread(target=self.work_off, args=(work,), daemon=True))
            threads[-1].start()
        return threads

    def work_off(self, work: Callable[[Task], None]) -> None:
        try:
            while not self._stopped.is_set():
                task = self._draw()
                if isinstance(task, _End):
                    return
                work(task)
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
            self._fail(error)

    def _draw(self) -> "Task | _End":
        """Return the next task, none where there is none or there are threads too many."""
        with self._lock:
            if self._active > self._most():
                self._active -= 1
                return _END
            task = next(self._tasks, _END)
            self._drained = isinstance(task, _End)
            return task

    def _most(self) -> int:
        return max(self._wanted(), 1)

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            if self.failure is None or isinstance(self.failure, Interrupted):
                self.failure = error
        self._stopped.set()


class _End:
    """Stands behind the last task."""


_END = _End()


def _join_for(threads: Iterable[threading.Thread], seconds: float) -> None:
    until = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(until - time.monotonic(), 0))
