"""Wakes the polls that wait, in every API process, when the routing data changes.

Postgres tells by NOTIFY. Where its connection breaks, everybody is woken to
look again, so that nothing missed in between is waited for.
"""

import asyncio
import logging
from contextlib import suppress

import psycopg

from registry_api.routing.clock import CHANNEL

RECONNECT_S = 0.5

logger = logging.getLogger("registry_api.xds")


class Watcher:
    """One connection that listens for all polls of this process.

    Args:
        conninfo: libpq connection string or URL.
    """

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.closing = False

    def start(self) -> None:
        """Begin to listen."""
        self._task = asyncio.create_task(self._listen_for_ever())

    async def close(self) -> None:
        """Stop listening and let everybody go."""
        self.closing = True
        self._wake()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def ticket(self) -> asyncio.Event:
        """Return what the next change sets. Take it before looking, so that none is missed."""
        return self._changed

    async def wait(self, ticket: asyncio.Event, *, timeout_s: float) -> None:
        """Wait for the change after ``ticket`` was taken, or until the time is over."""
        with suppress(TimeoutError):
            await asyncio.wait_for(ticket.wait(), timeout_s)

    def _wake(self) -> None:
        done, self._changed = self._changed, asyncio.Event()
        done.set()

    async def _listen_for_ever(self) -> None:
        while True:
            try:
                await self._listen()
            except (psycopg.Error, OSError) as error:
                logger.warning("lost Postgres's notifications: %s", error)
            self._wake()
            await asyncio.sleep(RECONNECT_S)

    async def _listen(self) -> None:
        async with await psycopg.AsyncConnection.connect(
            self._conninfo, autocommit=True
        ) as connection:
            await connection.execute(f"LISTEN {CHANNEL}")
            self._wake()
            async for _ in connection.notifies():
                self._wake()
