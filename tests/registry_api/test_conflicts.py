"""Races and names: one wins, the others are told cleanly."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from ai_model_format.digest import digest_of
from registry_api.settings import Settings
from tests.registry_api.conftest import Service, push_plain, serving


def test_100_parallel_pushes_of_one_version_one_wins(settings: Settings) -> None:
    with serving(settings) as first, serving(settings) as second:
        token = first.token()

        def push(number: int) -> tuple[int, int, str]:
            at = (first, second)[number % 2]
            headers = {"Authorization": f"Bearer {token}"}
            with httpx.Client(base_url=at.url, headers=headers, timeout=120) as client:
                answer = push_plain(client, "net", "v1", {"a": b"%d" % number})
            return number, answer.status_code, answer.json().get("code") or answer.json()["state"]

        with ThreadPoolExecutor(20) as pool:
            results = list(pool.map(push, range(100)))
        outcomes = Counter((status, what) for _, status, what in results)
        assert outcomes == {(200, "ready"): 1, (409, "version_conflict"): 99}
        winner = next(number for number, status, _ in results if status == 200)
        api = first.client()
        assert api.get("/v1/models/net/versions/v1/files/a").content == b"%d" % winner
        assert len(api.get("/v1/models/net/versions").json()["versions"]) == 1


def test_parallel_pushes_of_the_same_bytes_all_succeed(service: Service) -> None:
    clients = [service.client() for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda c: push_plain(c, "net", "v1", {"a": b"same"}), clients))
    assert [a.json()["state"] for a in answers] == ["ready"] * 8
    assert sum(a.json()["created"] for a in answers) == 1


def test_an_alias_and_a_version_cannot_share_a_name(api: httpx.Client) -> None:
    push_plain(api, "net", "v1", {"a": b"1"}, alias="stable")
    refused = push_plain(api, "net", "stable", {"a": b"2"})
    assert (refused.status_code, refused.json()["code"]) == (409, "name_conflict")
    refused = api.put("/v1/models/net/aliases/v1", json={"version": "v1"})
    assert (refused.status_code, refused.json()["code"]) == (409, "name_conflict")
    refused = push_plain(api, "net", "v2", {"a": b"2"}, alias="v1")
    assert (refused.status_code, refused.json()["code"]) == (409, "name_conflict")
    for word in ("latest", "a b", "-x"):
        assert api.put(f"/v1/models/net/aliases/{word}", json={"version": "v1"}).status_code == 422


def test_a_version_cannot_be_its_own_alias(api: httpx.Client) -> None:
    """Said before a byte is sent, of a model that is not there yet, too."""
    file = {"path": "a", "size": 1, "sha256": digest_of(b"1")}
    body = {"version": "v1", "files": [file], "alias": "v1"}
    for model_id in ("new", "net"):
        refused = api.post(f"/v1/models/{model_id}/pushes", json=body)
        assert (refused.status_code, refused.json()["code"]) == (409, "name_conflict")
        push_plain(api, "net", "v1", {"a": b"1"})


def test_aliases_move_only_from_where_the_caller_saw_them(api: httpx.Client) -> None:
    for number in (1, 2, 3):
        push_plain(api, "net", f"v{number}", {"a": b"%d" % number})
    path = "/v1/models/net/aliases/prod"
    new = {"If-None-Match": "*"}
    created = api.put(path, json={"version": "v1"}, headers=new)
    assert created.status_code == 200
    assert api.put(path, json={"version": "v2"}, headers=new).status_code == 412
    seen = api.get(path).headers["etag"]
    assert seen == created.headers["etag"]
    moved = api.put(path, json={"version": "latest"}, headers={"If-Match": seen})
    assert moved.json()["version"] == "v3"
    events = api.get("/v1/events?model_id=net").json()
    for again in (new, {"If-Match": seen}):  # the same once more, as after a lost answer
        repeated = api.put(path, json={"version": "v3"}, headers=again)
        assert (repeated.status_code, repeated.headers["etag"]) == (200, moved.headers["etag"])
    assert api.get("/v1/events?model_id=net").json() == events
    stale = api.put(path, json={"version": "v1"}, headers={"If-Match": seen})
    assert (stale.status_code, stale.json()["code"]) == (412, "precondition_failed")
    assert api.delete(path, headers={"If-Match": seen}).status_code == 412
    assert api.get("/v1/models/net/versions/prod").json()["version"] == "v3"
    assert api.delete(path, headers={"If-Match": moved.headers["etag"]}).status_code == 204
    assert api.get(path).json()["code"] == "alias_not_found"
    actions = [e["action"] for e in api.get("/v1/events?model_id=net").json()["events"]]
    assert actions[:3] == ["alias.removed", "alias.moved", "alias.created"]


def test_latest_passes_over_yanked_versions(api: httpx.Client) -> None:
    for number in (1, 2):
        push_plain(api, "net", f"v{number}", {"a": b"%d" % number})
    yanked = api.put("/v1/models/net/versions/v2/yank", json={"reason": "trained on the test set"})
    assert yanked.json()["yank_reason"] == "trained on the test set"
    assert api.get("/v1/models/net").json()["latest"] == "v1"
    assert api.get("/v1/models/net/versions/latest").json()["version"] == "v1"
    assert api.get("/v1/models/net/versions/v2/files/a").content == b"2"
    api.delete("/v1/models/net/versions/v2/yank")
    info = api.get("/v1/models/net/versions/latest").json()
    assert (info["version"], info["yanked_at"]) == ("v2", None)
    by_digest = api.get(f"/v1/models/net/versions/{info['manifest_digest']}")
    assert by_digest.json()["version"] == "v2"


def test_a_yank_goes_only_over_what_the_caller_saw(api: httpx.Client) -> None:
    push_plain(api, "net", "v1", {"a": b"1"})
    path = "/v1/models/net/versions/v1"
    seen = {"If-Match": api.get(path).headers["etag"]}
    yanked = api.put(f"{path}/yank", json={"reason": "leaks labels"}, headers=seen)
    assert yanked.status_code == 200
    for stale in (
        api.put(f"{path}/yank", json={"reason": "again"}, headers=seen),
        api.delete(f"{path}/yank", headers=seen),
    ):
        assert (stale.status_code, stale.json()["code"]) == (412, "precondition_failed")
    now = {"If-Match": yanked.headers["etag"]}
    assert api.get(path).headers["etag"] == yanked.headers["etag"]
    assert api.delete(f"{path}/yank", headers=now).json()["yank_reason"] is None


LISTS = {
    "models": ("models", "model_id", ["net", *(f"other-{n}" for n in range(5))]),
    "models/net/versions": ("versions", "version", ["v4", "v3", "v2", "v1", "v0"]),
    "models/net/aliases": ("aliases", "alias", [f"a{n}" for n in range(5)]),
    "tokens": ("tokens", "name", ["t4", "t3", "t2", "t1", "t0", "a admin"]),
}


@pytest.mark.parametrize("what", ["models", "models/net/versions", "models/net/aliases", "tokens"])
def test_pages_list_everything_once(api: httpx.Client, what: str) -> None:
    for number in range(5):
        push_plain(api, "net", f"v{number}", {"a": b"%d" % number}, alias=f"a{number}")
        push_plain(api, f"other-{number}", "v1", {"a": b"1"})
        api.post("/v1/tokens", json={"name": f"t{number}", "role": "reader"})
    key, of, wanted = LISTS[what]
    assert _all_pages(api, what, key, of, size=2) == wanted
    assert _all_pages(api, what, key, of, size=100) == wanted
    assert api.get(f"/v1/{what}?page_token=%00bad").status_code == 422
    assert api.get(f"/v1/{what}?page_token=bm90IG91cnM\u00e9").status_code == 422


def test_history_pages_list_everything_once(api: httpx.Client) -> None:
    for number in range(5):
        push_plain(api, "net", f"v{number}", {"a": b"%d" % number}, alias="live")
    seen = _all_pages(api, "events?model_id=net", "events", "event_id", size=3)
    assert len(seen) == 10
    assert seen == sorted(set(seen), reverse=True)


def _all_pages(api: httpx.Client, what: str, key: str, of: str, *, size: int) -> list:
    path, _, query = what.partition("?")
    more = dict([query.split("=")]) if query else {}
    seen, token = [], None
    while True:
        params = {**more, "page_size": size, **({"page_token": token} if token else {})}
        page = api.get(f"/v1/{path}", params=params).json()
        assert len(page[key]) <= size
        seen += [item[of] for item in page[key]]
        token = page["next_page_token"]
        if token is None:
            return seen
