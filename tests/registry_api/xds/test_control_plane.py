"""Two control planes over one Postgres, and what wakes a poll that waits."""

import asyncio

import psycopg
import pytest
from sqlalchemy import Engine

from registry_api.db.session import transaction
from registry_api.routing import clock, gateways
from registry_api.xds import control_plane
from registry_api.xds.control_plane import ControlPlane
from registry_api.xds.load import load_state
from registry_api.xds.poll import Json, Kind, Poll

FOREVER_S = 10_000.0
HANGS_S = 60.0


def poll(kind: Kind, has_version: str) -> Poll:
    return Poll(kind, "edge-1", has_version, (), "registry.example.org", "x-user-id")


def bump(engine: Engine) -> str:
    with transaction(engine) as session:
        return str(clock.bump(session))


def test_a_gateway_that_starts_anew_gets_its_routes_whoever_it_asks(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_plane, "HOLD_S", 0.0)
    revision = bump(engine)
    one, other = ControlPlane(engine), ControlPlane(engine)

    async def ask(plane: ControlPlane, kind: Kind, has_version: str) -> str | None:
        news = await plane.wait_for_news(poll(kind, has_version))
        return None if news is None else str(news["version_info"])

    async def scenario() -> None:
        for plane in (one, other):
            assert await ask(plane, "clusters", revision) is None
            assert await ask(plane, "routes", revision) is None
        assert await ask(other, "clusters", "") == revision
        assert await ask(other, "routes", "") is None, "it has no clusters yet"
        assert await ask(one, "clusters", revision) is None
        assert await ask(other, "routes", "") == revision

    asyncio.run(scenario())


def test_a_gateway_that_says_the_same_again_wakes_nobody(engine: Engine) -> None:
    url = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(url, autocommit=True) as listener:
        listener.execute(f"LISTEN {clock.CHANNEL}")
        for revision in (3, 3, 4):
            with transaction(engine) as session:
                gateways.applied(session, "edge-1", clusters=revision)
        last = bump(engine)
        heard: list[str] = []
        for notification in listener.notifies(timeout=HANGS_S):
            heard.append(notification.payload)
            if notification.payload == last:
                break
    assert heard == ["edge-1", "edge-1", last]


def test_a_notification_wakes_a_poll_that_waits(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking by itself every two seconds is put off for ever: only NOTIFY is left."""
    monkeypatch.setattr(control_plane, "LOOK_S", FOREVER_S)
    monkeypatch.setattr(control_plane, "HOLD_S", FOREVER_S)
    before = load_state(engine).revision
    with transaction(engine) as session:
        gateways.applied(session, "edge-1", clusters=before)

    async def wait_and_change() -> tuple[Json | None, str]:
        plane = ControlPlane(engine)
        waits = asyncio.Event()
        wait = plane.watcher.wait

        async def tell_and_wait(ticket: asyncio.Event, *, timeout_s: float) -> None:
            waits.set()
            await wait(ticket, timeout_s=timeout_s)

        monkeypatch.setattr(plane.watcher, "wait", tell_and_wait)
        listening = plane.watcher.ticket()
        plane.watcher.start()
        await listening.wait()
        waiting = asyncio.create_task(plane.wait_for_news(poll("clusters", str(before))))
        await waits.wait()
        revision = await asyncio.to_thread(bump, engine)
        news = await asyncio.wait_for(waiting, HANGS_S)
        await plane.watcher.close()
        return news, revision

    news, revision = asyncio.run(wait_and_change())
    assert news is not None
    assert news["version_info"] == revision
