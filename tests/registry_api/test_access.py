"""Who may do what: tokens, roles, globs, expiry, and reads without a token."""

import time

import httpx
import pytest
from sqlalchemy import Engine, text

from registry_api.access import glob_matches, like_pattern
from registry_api.settings import Settings
from tests.registry_api.conftest import Service, push_plain, serving

PUSH = {"version": "v9", "files": [{"path": "a", "size": 0, "sha256": "sha256:" + "e" * 64}]}
REQUESTS = [
    # method, path, body, least role
    ("GET", "/v1/whoami", None, "reader"),
    ("GET", "/v1/models", None, "reader"),
    ("GET", "/v1/models/team/net", None, "reader"),
    ("GET", "/v1/models/team/net/versions", None, "reader"),
    ("GET", "/v1/models/team/net/versions/v1", None, "reader"),
    ("GET", "/v1/models/team/net/versions/v1/manifest", None, "reader"),
    ("GET", "/v1/models/team/net/versions/v1/layout", None, "reader"),
    ("GET", "/v1/models/team/net/versions/v1/files/a", None, "reader"),
    ("HEAD", "/v1/models/team/net/versions/v1/files/a", None, "reader"),
    ("GET", "/v1/models/team/net/aliases", None, "reader"),
    ("PUT", "/v1/models/team/net/aliases/stable", {"version": "v1"}, "writer"),
    ("DELETE", "/v1/models/team/net/aliases/gone", None, "writer"),
    ("PUT", "/v1/models/team/net/versions/v1/yank", {"reason": "bad"}, "writer"),
    ("DELETE", "/v1/models/team/net/versions/v1/yank", None, "writer"),
    ("POST", "/v1/models/team/net/pushes", PUSH, "writer"),
    ("GET", "/v1/events", None, "reader"),
    ("POST", "/v1/tokens", {"name": "x", "role": "reader"}, "admin"),
    ("GET", "/v1/tokens", None, "admin"),
]
RANKS = {"nobody": -1, "reader": 0, "writer": 1, "admin": 2}


def test_every_request_needs_its_role(service: Service) -> None:
    assert push_plain(service.client(), "team/net", "v1", {"a": b"x"}).json()["created"]
    clients = {role: service.client(role) for role in ("reader", "writer", "admin")}
    clients["nobody"] = service.anybody()
    elsewhere = service.client("admin", ["other/*"])
    for method, path, body, least in REQUESTS:
        for role, client in clients.items():
            answer = client.request(method, path, json=body)
            allowed = RANKS[role] >= RANKS[least]
            if allowed:
                assert answer.status_code in (200, 201, 204, 404), (role, method, path, answer.text)
            else:
                assert answer.status_code == (401 if role == "nobody" else 403), (role, path)
        if "team/net" in path:
            assert elsewhere.request(method, path, json=body).status_code == 403, path
    assert elsewhere.get("/v1/models").json()["models"] == []
    assert [m["model_id"] for m in clients["reader"].get("/v1/models").json()["models"]] == [
        "team/net"
    ]


def test_reads_without_a_token_where_allowed(settings: Settings) -> None:
    open_settings = settings.model_copy(update={"anonymous_read": True})
    with serving(open_settings) as service:
        push_plain(service.client(), "net", "v1", {"a": b"x"})
        nobody = service.anybody()
        assert nobody.get("/v1/models/net/versions/v1/files/a").content == b"x"
        assert nobody.get("/v1/whoami").json()["name"] == "anonymous"
        assert nobody.post("/v1/models/net/pushes", json=PUSH).status_code == 403
        wrong = service.anybody(Authorization="Bearer wrong")
        assert wrong.get("/v1/models").status_code == 401


def test_tokens_expire_and_are_revoked(api: httpx.Client, service: Service, engine: Engine) -> None:
    made = api.post("/v1/tokens", json={"name": "t", "role": "reader", "expires_in_s": 1}).json()
    client = service.anybody(Authorization=f"Bearer {made['token']}")
    assert client.get("/v1/whoami").json()["name"] == "t"
    time.sleep(1.1)
    assert client.get("/v1/whoami").json()["code"] == "unauthenticated"

    made = api.post("/v1/tokens", json={"name": "u", "role": "writer", "models": ["a/*"]}).json()
    client = service.anybody(Authorization=f"Bearer {made['token']}")
    assert client.get("/v1/whoami").json()["models"] == ["a/*"]
    assert api.delete(f"/v1/tokens/{made['token_id']}").status_code == 204
    assert client.get("/v1/whoami").status_code == 401
    listed = {t["token_id"]: t for t in api.get("/v1/tokens").json()["tokens"]}
    assert listed[made["token_id"]]["revoked_at"]
    assert "token" not in listed[made["token_id"]]
    with engine.connect() as connection:
        everything = str(
            connection.execute(text("SELECT token.*, event.* FROM token, event")).all()
        )
    assert made["token"] not in everything


@pytest.mark.parametrize(
    ("glob", "model_id", "matches"),
    [
        ("*", "a/b", True),
        ("a/*", "a/b", True),
        ("a/*", "ab", False),
        ("a_b", "a_b", True),
        ("a_b", "axb", False),
        ("a?b", "axb", True),
        ("a.b", "axb", False),
        ("*-net", "team/res-net", True),
    ],
)
def test_globs_mean_the_same_here_and_in_sql(
    engine: Engine, glob: str, model_id: str, matches: bool
) -> None:
    assert glob_matches(glob, model_id) is matches
    with engine.connect() as connection:
        query = text("SELECT CAST(:model AS text) LIKE :pattern")
        found = connection.scalar(query, {"model": model_id, "pattern": like_pattern(glob)})
    assert found is matches
