"""Questions that the event loop itself asks: connections that break, end, or are left waiting."""

import asyncio
from contextlib import suppress

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from registry_api.catalog.service import MAX_REMEMBERED
from registry_api.db.questions import LoopReader, Question
from registry_api.db.session import conninfo_of
from tests.registry_api.conftest import push_plain

PID = Question("SELECT pg_backend_pid()", {}, lambda row: row[0])
PAUSE = Question("SELECT 1 FROM pg_sleep(30)", {}, lambda row: row[0])
NOTHING = Question("SELECT 1 WHERE false", {}, lambda row: row[0])


def test_an_idle_connection_is_used_again_and_replaced_once_it_has_ended(database: str) -> None:
    async def ask() -> list[int]:
        reader = LoopReader(database, connections=2)
        pids = [await reader.ask(PID), await reader.ask(PID)]
        with psycopg.connect(database, autocommit=True) as admin:
            admin.execute("SELECT pg_terminate_backend(%s, 5000)", [pids[0]])
        pids.append(await reader.ask(PID))
        await reader.close()
        return pids

    first, second, third = asyncio.run(ask())
    assert first == second != third


def test_no_row_is_none(database: str) -> None:
    async def ask() -> int | None:
        reader = LoopReader(database, connections=1)
        try:
            return await reader.ask(NOTHING)
        finally:
            await reader.close()

    assert asyncio.run(ask()) is None


def test_an_answer_nobody_waits_for_is_nobody_elses(database: str) -> None:
    """Its connection goes, its turn is free again."""

    async def ask() -> list[int]:
        reader = LoopReader(database, connections=1)
        pids = [await reader.ask(PID)]
        left = asyncio.create_task(reader.ask(PAUSE))
        await asyncio.sleep(0.3)
        left.cancel()
        with suppress(asyncio.CancelledError):
            await left
        pids += [await asyncio.wait_for(reader.ask(PID), 10), await reader.ask(PID)]
        await reader.close()
        return pids

    first, second, third = asyncio.run(ask())
    assert first != second == third


def test_no_more_connections_than_allowed_however_many_ask(database: str) -> None:
    async def ask() -> set[int]:
        reader = LoopReader(database, connections=2)
        pids = await asyncio.gather(*(reader.ask(PID) for _ in range(20)))
        await reader.close()
        return set(pids)

    assert len(asyncio.run(ask())) <= 2


def test_a_postgres_that_is_away_is_said_as_sqlalchemy_says_it() -> None:
    async def ask() -> None:
        await LoopReader("postgresql://nobody@127.0.0.1:1/none", connections=1).ask(PID)

    with pytest.raises(OperationalError):
        asyncio.run(ask())


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgresql://u:p%2Bq%40x@a/db", {"password": "p+q@x", "host": "a"}),
        ("postgresql://u@/db?host=a:1&host=b:2", {"host": "a,b", "port": "1,2"}),
        ("postgresql+psycopg://u@a:5/db?sslmode=require", {"port": "5", "sslmode": "require"}),
    ],
)
def test_those_without_sqlalchemy_connect_to_what_it_connects_to(url: str, told: dict) -> None:
    found = conninfo_to_dict(conninfo_of(url))
    assert found.items() >= {**told, "user": "u", "dbname": "db"}.items()
    assert found["options"] == "-c search_path=public,jobs -c timezone=UTC"


@pytest.mark.parametrize("size", [10, MAX_REMEMBERED, 100_000])
def test_what_is_shown_follows_every_change_whatever_its_size(api, engine, size: int) -> None:
    """Small ones are remembered, large ones made in a thread."""
    parameters = {"note": "x" * size}
    pushed = push_plain(api, "net", "v1", {"a": b"x"}, metadata={"parameters": parameters}).json()
    assert pushed["created"]
    url = "/v1/models/net/versions/v1"
    for _ in range(2):
        before = api.get(url)
        assert before.json()["metadata"]["parameters"] == parameters
    assert api.put(f"{url}/yank", json={"reason": "wrong data"}).is_success
    assert api.put("/v1/models/net/aliases/best", json={"version": "v1"}).is_success
    assert api.get(url).json()["aliases"] == ["best"]
    assert api.delete("/v1/models/net/aliases/best").is_success
    after = api.get(url)
    assert after.json()["yank_reason"] == "wrong data"
    assert after.headers["ETag"] != before.headers["ETag"]
    assert api.delete(f"{url}/yank").is_success
    assert api.get(url).content == before.content
    with engine.begin() as connection:
        connection.execute(text("UPDATE version SET created_by = 'somebody else'"))
    assert api.get(url).json()["created_by"] == "somebody else"
