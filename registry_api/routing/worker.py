"""What the registry does about traffic by itself: cut off silent servers, run rollouts.

Every API process runs it; Postgres's locks let one at a time act.
"""

import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI
from sqlalchemy import Engine

from registry_api.db.session import transaction
from registry_api.rollout.tick import tick as tick_rollouts
from registry_api.routing import clock

TICK_S = 0.5

logger = logging.getLogger("registry_api.routing")

Task = Callable[[Engine], object]


class Worker:
    """A thread that runs tasks every half second."""

    def __init__(self, engine: Engine, tasks: tuple[Task, ...]) -> None:
        self._engine = engine
        self._tasks = tasks
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the task under way."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        self._attempt(_come_back)
        while not self._stopped.wait(TICK_S):
            for task in self._tasks:
                self._attempt(task)

    def _attempt(self, task: Task) -> None:
        try:
            task(self._engine)
        except Exception:
            # The next tick tries again; a database that is away must not end the thread.
            logger.exception("a tick of traffic failed")


def _come_back(engine: Engine) -> None:
    with transaction(engine) as session:
        clock.came_back(session)


def _cut_off(engine: Engine) -> None:
    with transaction(engine) as session:
        clock.tick(session)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Run the worker as long as the process."""
    worker = Worker(app.state.parts.engine, (_cut_off, tick_rollouts))
    worker.start()
    yield
    worker.stop()
