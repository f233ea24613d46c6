"""Manifests that are kept in memory: right ones only, and not more than the limit."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from ai_model_format.digest import digest_of
from registry_api.get.bodies import Bodies, Made
from storage.local import LocalObjectStore
from tests.registry_api.conftest import push_plain


def test_those_asked_for_longest_ago_go_first() -> None:
    bodies = Bodies(10)
    for key in "ab":
        bodies.keep(key, key.encode() * 4)
    assert bodies.get("a") == b"aaaa"
    bodies.keep("c", b"cccc")
    assert [bodies.get(key) for key in "abc"] == [b"aaaa", None, b"cccc"]


def test_a_body_kept_again_counts_once_and_one_too_large_is_not_kept() -> None:
    bodies = Bodies(8)
    for _ in range(3):
        bodies.keep("a", b"aaaa")
    bodies.keep("b", b"bbbb")
    bodies.keep("c", b"c" * 9)
    assert [bodies.get(key) for key in "abc"] == [b"aaaa", b"bbbb", None]


def test_who_asks_while_a_body_is_made_waits_for_it() -> None:
    made = []

    async def make() -> Made:
        made.append(1)
        await asyncio.sleep(0.05)
        return b"body", True

    async def crowd() -> list[bytes]:
        return await asyncio.gather(*(bodies.ask("a", make) for _ in range(100)))

    bodies = Bodies(10)
    assert asyncio.run(crowd()) == [b"body"] * 100
    assert asyncio.run(bodies.ask("a", make)) == b"body"
    assert len(made) == 1


def test_who_goes_away_takes_a_body_from_nobody_else() -> None:
    async def make() -> Made:
        await asyncio.sleep(0.05)
        return b"body", True

    async def crowd() -> list[bytes | BaseException]:
        asked = [asyncio.create_task(bodies.ask("a", make)) for _ in range(3)]
        await asyncio.sleep(0.01)
        asked[0].cancel()
        return await asyncio.gather(*asked, return_exceptions=True)

    bodies = Bodies(10)
    gone, *others = asyncio.run(crowd())
    assert isinstance(gone, asyncio.CancelledError)
    assert others == [b"body"] * 2


def test_a_body_that_cannot_be_made_or_is_wrong_is_tried_again() -> None:
    answers: list[Made | Exception] = [OSError("away"), (b"wrong", False), (b"right", True)]

    async def make() -> Made:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    bodies = Bodies(10)
    with pytest.raises(OSError, match="away"):
        asyncio.run(bodies.ask("a", make))
    assert [asyncio.run(bodies.ask("a", make)) for _ in range(3)] == [b"wrong", b"right", b"right"]


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_a_kept_manifest_is_the_same_and_only_for_those_who_may_read(
    service, engine, encoding: str, monkeypatch
) -> None:
    api = service.client()
    files = {f"file-{number}": bytes([number]) for number in range(40)}
    assert push_plain(api, "team/net", "v1", files).json()["created"]
    url, headers = "/v1/models/team/net/versions/v1/manifest", {"Accept-Encoding": encoding}
    reads = _counted(monkeypatch)
    first, again = (api.get(url, headers=headers) for _ in range(2))
    assert len(reads) == 1
    assert first.headers.get("Content-Encoding", "identity") == encoding
    for answer in (first, again):
        assert f'"{digest_of(answer.content)}"' == first.headers["ETag"]
    told = [{**answer.headers} for answer in (first, again)]
    for each in told:
        del each["date"], each["x-request-id"]
    assert told[0] == told[1]
    assert service.client("reader", ["other/*"]).get(url).status_code == 403
    assert service.anybody().get(url).status_code == 401
    with engine.begin() as connection:
        connection.execute(text("UPDATE version SET name = 'v2'"))
    assert api.get(url).status_code == 404


def test_a_crowd_has_a_manifest_read_once(service, monkeypatch) -> None:
    api = service.client()
    assert push_plain(api, "net", "v1", {"a": b"x"}).json()["created"]
    reads = _counted(monkeypatch, takes_s=0.2)
    url = "/v1/models/net/versions/v1/manifest"
    with ThreadPoolExecutor(20) as crowd:
        answers = list(crowd.map(lambda _: api.get(url), range(20)))
    assert len(reads) == 1
    assert {f'"{digest_of(answer.content)}"' for answer in answers} == {answers[0].headers["ETag"]}


def test_a_manifest_that_came_damaged_from_the_store_is_not_kept(service, monkeypatch) -> None:
    api = service.client()
    assert push_plain(api, "net", "v1", {"a": b"x"}).json()["created"]
    url = "/v1/models/net/versions/v1/manifest"
    with monkeypatch.context() as broken:
        broken.setattr(LocalObjectStore, "read", lambda _, __, start, end: iter((bytes(end),)))
        assert set(api.get(url).content) == {0}
    answer = api.get(url)
    assert f'"{digest_of(answer.content)}"' == answer.headers["ETag"]


def _counted(monkeypatch, takes_s: float = 0.0) -> list[str]:
    """Return what the store is asked to read from here on, each time for so long."""
    read, asked = LocalObjectStore.read, []

    def counting(store, digest, *span):
        asked.append(digest)
        time.sleep(takes_s)
        return read(store, digest, *span)

    monkeypatch.setattr(LocalObjectStore, "read", counting)
    return asked
