"""Work in threads that ends together: the first failure stops the rest."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from ai_model.retry import Interrupted

Task = TypeVar("Task")
_GRACE_S = 5.0


def run_parallel(
    tasks: Iterable[Task],
    work: Callable[[Task], None],
    *,
    workers: int,
    stopped: threading.Event,
) -> None:
    """Call ``work`` on every task in up to ``workers`` threads.

    Tasks are drawn one at a time when a thread is free, so a lazy iterable stays lazy.
    On a failure or Ctrl-C ``stopped`` is set; long work looks at it now and then.

    Raises:
        BaseException: the first that a task raised, or ``KeyboardInterrupt``.
    """
    shared = _Shared(iter(tasks), stopped)
    threads = [
        threading.Thread(target=shared.work_off, args=(work,), daemon=True)
        for _ in range(max(workers, 1))
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            while thread.is_alive():
                thread.join(0.5)  # in pieces, so that Ctrl-C is noticed
    except BaseException:
        stopped.set()
        _join_for(threads, _GRACE_S)
        raise
    if shared.failure is not None:
        raise shared.failure


class _Shared(Generic[Task]):
    """What the threads of one run have in common."""

    def __init__(self, tasks: Iterator[Task], stopped: threading.Event) -> None:
        self.failure: BaseException | None = None
        self._tasks = tasks
        self._stopped = stopped
        self._lock = threading.Lock()

    def work_off(self, work: Callable[[Task], None]) -> None:
        try:
            while not self._stopped.is_set():
                with self._lock:
                    task = next(self._tasks, _END)
                if isinstance(task, _End):
                    return
                work(task)
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
            self._fail(error)

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
