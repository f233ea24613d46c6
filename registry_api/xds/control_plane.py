"""Holds the gateways' polls until there is something new for them."""

import asyncio
import logging
import time

from sqlalchemy import Engine
from starlette.concurrency import run_in_threadpool

from registry_api.db.session import transaction
from registry_api.routing import gateways
from registry_api.xds.load import load_state
from registry_api.xds.poll import Json, Kind, Poll, answer
from registry_api.xds.state import RoutingState
from registry_api.xds.watcher import Watcher

HOLD_S = 20.0
"""How long a poll waits; a gateway gives up after 30 s."""
LOOK_S = 2.0
"""How old the state may be where no notification came."""
REFUSED_S = 1.0
"""How long a gateway that refused a configuration waits before it gets it again."""

logger = logging.getLogger("registry_api.xds")


class ControlPlane:
    """What one API process keeps for all gateways: the newest state, and who was told what.

    Everything that must outlive the process is in Postgres.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        url = engine.url.set(drivername="postgresql")
        self.watcher = Watcher(url.render_as_string(hide_password=False))
        self._state: tuple[asyncio.Event, float, RoutingState] | None = None
        self._loading = asyncio.Lock()
        self._sent: dict[tuple[str, Kind, tuple[str, ...]], tuple[str, float]] = {}

    async def wait_for_news(self, poll: Poll) -> Json | None:
        """Return what is new for a gateway; ``None`` where nothing came in time."""
        await self._note(poll)
        deadline = time.monotonic() + HOLD_S
        while not self.watcher.closing:
            ticket = self.watcher.ticket()
            state = await self._current_state(ticket)
            if news := await self._news(poll, state):
                return news
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                break
            await self.watcher.wait(ticket, timeout_s=min(left_s, LOOK_S))
        return None

    async def _news(self, poll: Poll, state: RoutingState) -> Json | None:
        revision = str(state.revision)
        if poll.kind != "endpoints" and poll.has_version == revision:
            return None
        if poll.kind == "routes" and not await self._has_clusters(poll, state.revision):
            return None
        news = answer(poll, state)
        version = str(news["version_info"])
        if version == poll.has_version or self._was_refused(poll, version):
            return None
        return news

    async def _current_state(self, ticket: asyncio.Event) -> RoutingState:
        """Return the state as of ``ticket``, loaded once for all polls that wait."""
        async with self._loading:
            if self._state is not None:
                loaded_for, at, state = self._state
                if loaded_for is ticket and time.monotonic() - at < LOOK_S:
                    return state
            at = time.monotonic()
            state = await run_in_threadpool(load_state, self._engine)
            self._state = (ticket, at, state)
            return state

    async def _note(self, poll: Poll) -> None:
        """Keep, for every API process to see, which revision a gateway shows to have."""
        if poll.kind != "endpoints":
            await run_in_threadpool(self._save, poll)

    def _save(self, poll: Poll) -> None:
        with transaction(self._engine) as session:
            if poll.kind == "clusters":
                gateways.applied(session, poll.gateway_id, clusters=poll.has_revision)
            else:
                gateways.applied(session, poll.gateway_id, routes=poll.has_revision)

    async def _has_clusters(self, poll: Poll, revision: int) -> bool:
        return await run_in_threadpool(self._clusters_applied, poll.gateway_id) >= revision

    def _clusters_applied(self, gateway_id: str) -> int:
        with transaction(self._engine) as session:
            return gateways.clusters_applied(session, gateway_id)

    def _was_refused(self, poll: Poll, version: str) -> bool:
        """Say whether a gateway asks again for what it was just sent: it could not use it."""
        key = (poll.gateway_id, poll.kind, poll.names)
        sent, at = self._sent.get(key, ("", 0.0))
        now = time.monotonic()
        if sent == version and now - at < REFUSED_S:
            logger.warning("%s did not take %s %s", poll.gateway_id, poll.kind, version)
            return True
        self._sent[key] = (version, now)
        return False
