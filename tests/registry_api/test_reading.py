"""Reads: tokens remembered for a moment, connections that have died, answers not sent twice."""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from sqlalchemy import Engine, text

from registry_api.access import Caller
from registry_api.settings import Settings
from registry_api.token_cache import MAX_TOKENS, TokenCache
from tests.registry_api.conftest import Service, push_plain, serving, wait_until

ANA = Caller(None, "ana", "reader", ("*",))
READS = ("", "/manifest", "/layout", "/files/a")


def test_a_token_revoked_by_another_process_ends_soon(settings: Settings) -> None:
    with (
        serving(settings.model_copy(update={"token_cache_s": 1})) as here,
        serving(settings) as there,
    ):
        admin = there.client()
        made = admin.post("/v1/tokens", json={"name": "t", "role": "reader"}).json()
        client = here.anybody(Authorization=f"Bearer {made['token']}")
        assert client.get("/v1/whoami").status_code == 200
        assert admin.delete(f"/v1/tokens/{made['token_id']}").status_code == 204
        wait_until(lambda: client.get("/v1/whoami").status_code == 401, "the end of the token")


def test_a_remembered_token_spares_postgres_the_question(api: httpx.Client, engine: Engine) -> None:
    assert api.get("/v1/whoami").status_code == 200
    with engine.begin() as connection:
        connection.execute(text("LOCK TABLE token IN ACCESS EXCLUSIVE MODE"))
        assert api.get("/v1/whoami").status_code == 200


def test_a_token_is_believed_no_longer_than_it_lasts() -> None:
    cache = TokenCache(60)
    now = datetime.now(UTC)
    for name, ends in {"ended": now, "lasts": now + timedelta(hours=1), "endless": None}.items():
        assert cache.fill(name, lambda ends=ends: (ANA, ends)) == ANA
    assert [cache.get(name) for name in ("ended", "lasts", "endless")] == [None, ANA, ANA]
    cache.forget_all()
    assert cache.get("endless") is None


def test_what_was_asked_before_a_revocation_is_not_kept() -> None:
    cache = TokenCache(60)

    def revoked_meanwhile() -> tuple[Caller, None]:
        cache.forget_all()
        return ANA, None

    assert cache.fill("sha256:a", revoked_meanwhile) == ANA
    assert cache.get("sha256:a") is None


def test_a_cache_without_life_keeps_nothing_and_none_grows_for_ever() -> None:
    none = TokenCache(0)
    none.fill("sha256:a", lambda: (ANA, None))
    assert none.get("sha256:a") is None
    full = TokenCache(60)
    for number in range(MAX_TOKENS + 1):
        full.fill(f"sha256:{number}", lambda: (ANA, None))
    assert full.get("sha256:0") is None
    assert full.get(f"sha256:{MAX_TOKENS}") == ANA


def test_connections_that_postgres_ended_are_replaced(service: Service, engine: Engine) -> None:
    api = service.client()
    assert push_plain(api, "net", "v1", {"a": b"x"}).json()["created"]
    with ThreadPoolExecutor(8) as pool:  # several connections in the pool
        list(pool.map(lambda _: api.get("/v1/models/net/versions/v1"), range(32)))
    for path in READS:
        _end_connections(engine)
        assert api.get(f"/v1/models/net/versions/v1{path}").status_code == 200, path
    _end_connections(engine)
    assert api.put("/v1/models/net/aliases/best", json={"version": "v1"}).status_code == 200


def test_a_read_whose_connection_breaks_under_it_is_asked_again(
    service: Service, engine: Engine
) -> None:
    api = service.client()
    assert push_plain(api, "net", "v1", {"a": b"x"}).json()["created"]
    api.get("/v1/whoami")
    with ThreadPoolExecutor(1) as pool:
        with engine.begin() as connection:
            connection.execute(text("LOCK TABLE version IN ACCESS EXCLUSIVE MODE"))
            answer = pool.submit(api.get, "/v1/models/net/versions/v1")
            wait_until(lambda: _end_waiting(engine) > 0, "a read that waits")
        assert answer.result().status_code == 200


@pytest.mark.parametrize("ref", ["v1", "latest", "best"])
def test_a_version_that_the_client_holds_is_not_sent_again(api: httpx.Client, ref: str) -> None:
    created = push_plain(api, "net", "v1", {"a": b"x"}, alias="best").json()
    url = f"/v1/models/net/versions/{ref}"
    first = api.get(url)
    assert first.json()["manifest_digest"] == created["manifest_digest"]
    held = {"If-None-Match": first.headers["ETag"]}
    again = api.get(url, headers=held)
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["ETag"] == first.headers["ETag"]
    assert api.put("/v1/models/net/aliases/other", json={"version": "v1"}).status_code == 200
    changed = api.get(url, headers=held)
    assert changed.status_code == 200
    assert changed.json()["aliases"] == ["best", "other"]


def _end_connections(engine: Engine) -> None:
    """End every connection to the database but the one that says so, and wait until they went."""
    end_others = text(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    with engine.connect() as connection:
        for _ in range(200):
            ended = connection.scalar(end_others)
            connection.rollback()
            if not ended:
                return
            time.sleep(0.02)
    raise AssertionError("connections do not end")


def _end_waiting(engine: Engine) -> int:
    with engine.connect() as connection:
        return int(
            connection.scalar(
                text(
                    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND wait_event_type = 'Lock'"
                )
            )
            or 0
        )


def test_a_version_that_is_not_there_names_those_alike(api: httpx.Client) -> None:
    for version in ("v2.3", "v2.4", "baseline"):
        assert push_plain(api, "net", version, {"a": version.encode()}).json()["created"]
    answer = api.get("/v1/models/net/versions/v2.5")
    assert answer.status_code == 404
    assert answer.json()["detail"] == (
        "model 'net' has no version or alias 'v2.5'; did you mean v2.4 or v2.3?"
    )
    assert "did you mean" not in api.get("/v1/models/net/versions/xyz").json()["detail"]
    assert api.put("/v1/models/net/aliases/production", json={"version": "v2.3"}).is_success
    answer = api.get("/v1/models/net/versions/prod/layout")
    assert answer.json()["detail"].endswith("; did you mean production?")


def test_a_ref_is_compared_with_few_short_names(api: httpx.Client) -> None:
    long = "long-" * 20
    assert push_plain(api, "net", "zeta-1", {"a": b"x"}).json()["created"]
    assert push_plain(api, "net", f"{long}1", {"a": b"x"}).json()["created"]
    zeta = api.get("/v1/models/net/versions/zeta-2").json()["detail"]
    assert zeta.endswith("; did you mean zeta-1?")
    assert "did you mean" not in api.get(f"/v1/models/net/versions/{long}2").json()["detail"]
    assert "did you mean" not in api.get(f"/v1/models/net/versions/{long[:60]}").json()["detail"]
    for number in range(19):
        assert push_plain(api, "net", f"{number}", {"a": b"x"}).json()["created"]
    assert "did you mean" not in api.get("/v1/models/net/versions/zeta-2").json()["detail"]
