"""Who may do what: tokens, roles, globs, expiry, and reads without a token."""

import json
import re
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

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
        if path == "/v1/tokens":
            assert elsewhere.request(method, path, json=body).status_code == 403, path
    assert elsewhere.delete(f"/v1/tokens/{uuid.uuid4()}").status_code == 403
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


def test_a_creation_sent_again_makes_one_token(service: Service, engine: Engine) -> None:
    api, body = service.client("admin"), {"name": "ci", "role": "writer", "expires_in_s": 900}
    once = {"Idempotency-Key": "7d1f-a"}
    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(lambda _: api.post("/v1/tokens", json=body, headers=once), range(8))
        )
    assert [answer.status_code for answer in answers] == [201] * 8
    assert len({answer.json()["token"] for answer in answers}) == 1
    made = answers[0].json()
    client = service.anybody(Authorization=f"Bearer {made['token']}")
    assert client.get("/v1/whoami").json()["name"] == "ci"
    listed = api.get("/v1/tokens").json()["tokens"]
    assert [t["token_id"] for t in listed if t["name"] == "ci"] == [made["token_id"]]
    events = api.get("/v1/events").json()["events"]
    assert [e["action"] for e in events if e["subject"] == made["token_id"]] == ["token.created"]

    other = api.post("/v1/tokens", json={**body, "role": "admin"}, headers=once)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    for fresh in (
        api.post("/v1/tokens", json=body, headers={"Idempotency-Key": "7d1f-b"}),
        api.post("/v1/tokens", json=body),
        service.client("admin").post("/v1/tokens", json=body, headers=once),
    ):
        assert fresh.json()["token"] != made["token"]
    with engine.connect() as connection:
        everything = str(
            connection.execute(text("SELECT token.*, event.* FROM token, event")).all()
        )
    assert made["token"] not in everything


def test_a_failed_commit_is_not_answered_as_a_success(api: httpx.Client, engine: Engine) -> None:
    """The transaction ends before the answer leaves: the trigger runs at the commit itself."""
    with engine.begin() as connection:
        connection.execute(
            text(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
                " $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'serialization_failure'; END $$"
            )
        )
        connection.execute(
            text(
                "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON token DEFERRABLE"
                " INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()"
            )
        )
    answer = api.post("/v1/tokens", json={"name": "lost", "role": "reader"})
    assert answer.status_code == 503, answer.text
    assert "lost" not in [t["name"] for t in api.get("/v1/tokens").json()["tokens"]]


SIGNED = {"/v1/objects/{digest}", "/v1/uploads/{upload_id}/parts/{part_number}"}
OPEN = {"/v1/live", "/v1/ready"}
EXAMPLES = {
    "digest": "sha256:" + "0" * 64,
    "upload_id": "0" * 8 + "-0000-4000-8000-" + "0" * 12,
    "push_id": "0" * 8 + "-0000-4000-8000-" + "0" * 12,
    "token_id": "0" * 8 + "-0000-4000-8000-" + "0" * 12,
    "part_number": "1",
    "model_id": "net",
    "gateway_id": "g",
    "address": "127.0.0.1:1",
}


@pytest.mark.parametrize("anonymous_read", [False, True])
def test_every_operation_asks_who_is_there(settings: Settings, anonymous_read: bool) -> None:
    """No operation of the interface, present or to come, is open by mistake."""
    interface = json.loads((Path(__file__).parents[2] / "openapi.json").read_text())["paths"]
    asked = 0
    with serving(settings.model_copy(update={"anonymous_read": anonymous_read})) as service:
        nobody = service.anybody()
        for path, methods in interface.items():
            url = re.sub(r"{(\w+)}", lambda found: EXAMPLES.get(found[1], "x"), path)
            for method in methods.keys() & {"get", "put", "post", "patch", "delete"}:
                answer = nobody.request(method, url, json={} if method != "get" else None)
                if path in OPEN:
                    assert answer.status_code == 200
                elif path in SIGNED:
                    assert answer.status_code in (403, 422), (method, path)
                elif not anonymous_read:
                    assert answer.status_code == 401, (method, path, answer.text)
                elif method != "get":
                    assert answer.status_code in (403, 422), (method, path, answer.text)
                asked += 1
    assert asked > 30


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
