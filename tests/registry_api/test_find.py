"""Which versions were made from this data, code or parameter, or hold this file."""

import httpx
import pytest

from tests.registry_api.conftest import Service, push_plain, sha256

METADATA = {
    "v1": {
        "dataset": {"id": "snli", "version": "1.10"},
        "parameters": {"lr": 0.1, "optimizer": {"name": "adam", "betas": [0.9, 0.999]}, "x": "1"},
        "git_commit": "abcdef0123",
        "tags": {"team": "nlp", "note": "a=b"},
    },
    "v2": {
        "dataset": {"id": "snli", "version": "2"},
        "parameters": {"lr": 1e-5, "amp": True, "optimizer": {"name": "sgd"}, "x": None},
        "git_commit": "abcdff4567",
        "tags": {"team": "nlp"},
    },
    "v3": {"dataset": {"id": "mnli"}, "parameters": {"lr": 0.1, "k" * 500: 1, "long": "z" * 9000}},
}


@pytest.fixture
def filled(api: httpx.Client) -> httpx.Client:
    for version, metadata in METADATA.items():
        files = {"config.json": b"{}", "copy.json": b"{}", "w": version.encode()}
        done = push_plain(api, "team/net", version, files, metadata=metadata)
        assert done.json()["state"] == "ready", done.text
    return api


def find(api: httpx.Client, **asked: object) -> list[str]:
    answer = api.get("/v1/versions", params=asked)
    assert answer.status_code == 200, answer.text
    return [version["version"] for version in answer.json()["versions"]]


FOUND: list[tuple[dict[str, object], list[str]]] = [
    ({}, ["v3", "v2", "v1"]),
    ({"dataset_id": "snli"}, ["v2", "v1"]),
    ({"dataset_id": "snli", "dataset_version": "1.10"}, ["v1"]),
    ({"dataset_version": "1.1"}, []),
    ({"dataset_id": "sn"}, []),
    ({"git_commit": "abcd"}, ["v2", "v1"]),
    ({"git_commit": "abcdef"}, ["v1"]),
    ({"git_commit": "abcdef0123"}, ["v1"]),
    ({"git_commit": "abcdef01234"}, []),
    ({"param": "lr=0.1"}, ["v3", "v1"]),
    ({"param": "lr=1.0e-1"}, ["v3", "v1"]),
    ({"param": "lr=0.00001"}, ["v2"]),
    ({"param": ["lr=0.1", "optimizer.name=adam"]}, ["v1"]),
    ({"param": 'optimizer.name="adam"'}, ["v1"]),
    ({"param": "optimizer.betas=[0.9,0.999]"}, ["v1"]),
    ({"param": "amp=true"}, ["v2"]),
    ({"param": "x=1"}, ["v1"]),
    ({"param": "lr="}, []),
    ({"param": f"long={'z' * 4000}"}, []),
    ({"tag": "team=nlp"}, ["v2", "v1"]),
    ({"tag": ["team=nlp", "note=a=b"], "param": "lr=0.1"}, ["v1"]),
    ({"sha256": sha256(b"{}")}, ["v3", "v2", "v1"]),
    ({"sha256": sha256(b"v2")}, ["v2"]),
    ({"sha256": sha256(b"nothing")}, []),
    ({"created_by": "a admin", "dataset_id": "mnli"}, ["v3"]),
    ({"created_by": "nobody"}, []),
    ({"prefix": "team/", "param": "lr=0.1"}, ["v3", "v1"]),
    ({"prefix": "%"}, []),
    ({"prefix": "team/ne_"}, []),
]


def test_all_that_is_asked_for_is_true(filled: httpx.Client) -> None:
    for asked, found in FOUND:
        assert find(filled, **asked) == found, asked


def test_a_manifest_is_found_by_its_digest(filled: httpx.Client) -> None:
    shown = filled.get("/v1/models/team/net/versions/v2").json()
    [found] = filled.get("/v1/versions", params={"sha256": shown["manifest_digest"]}).json()[
        "versions"
    ]
    assert found == {name: shown[name] for name in found.keys() - {"dataset", "git_commit"}} | {
        "dataset": METADATA["v2"]["dataset"],
        "git_commit": METADATA["v2"]["git_commit"],
    }


def test_what_is_too_long_for_an_index_is_found_too(api: httpx.Client) -> None:
    text = "words " * 600
    push_plain(api, "net", "v1", {"a": b"1"}, metadata={"parameters": {"prompt": text}})
    assert find(api, param=f"prompt={text}") == ["v1"]
    assert find(api, param=f"prompt={text}!") == []


def test_pages_go_on_where_they_ended(filled: httpx.Client) -> None:
    seen, token = [], ""
    for _ in range(3):
        asked = {"page_size": 1, "page_token": token, "prefix": "team/"}
        page = filled.get("/v1/versions", params={k: v for k, v in asked.items() if v}).json()
        seen += [version["version"] for version in page["versions"]]
        token = page["next_page_token"]
    assert (seen, token) == (["v3", "v2", "v1"], None)


def test_only_what_may_be_read_is_found(service: Service, filled: httpx.Client) -> None:
    push_plain(filled, "other", "o1", {"w": b"v1"}, metadata=METADATA["v1"])
    push_plain(filled, "team_net", "u1", {"w": b"v1"}, metadata=METADATA["v1"])
    digest = sha256(b"v1")
    assert find(filled, sha256=digest) == ["u1", "o1", "v1"]
    for globs, found in (
        (["team/*"], ["v1"]),
        (["other", "team_net"], ["u1", "o1"]),
        (["team_*"], ["u1"]),
        (["nothing"], []),
    ):
        narrow = service.client("reader", globs)
        assert find(narrow, sha256=digest) == find(narrow, dataset_id="snli", param="lr=0.1")
        assert find(narrow, sha256=digest) == find(narrow, tag="note=a=b") == found


REFUSED: list[dict[str, object]] = [
    {"param": "lr"},
    {"param": "=1"},
    {"param": "lr=1e999"},
    {"param": 'lr="\\u0000"'},
    {"param": 'lr="\\ud800"'},
    {"param": "lr=" + "9" * 30},
    {"param": "lr=" + "[" * 100 + "]" * 100},
    {"param": ["a=1"] * 33},
    {"param": "a=" + "x" * 5000},
    {"tag": "a\0=1"},
    {"dataset_id": "\0"},
    {"git_commit": "xyz1"},
    {"git_commit": "abc"},
    {"sha256": "sha256:abc"},
    {"page_token": "x"},
    {"page_size": 0},
    {"datasetid": "snli"},
]


def test_what_makes_no_sense_is_refused(api: httpx.Client) -> None:
    for asked in REFUSED:
        answer = api.get("/v1/versions", params=asked)
        problem = (answer.status_code, answer.json()["code"])
        assert problem == (422, "invalid_request"), asked


def test_metadata_of_any_shape_is_published(api: httpx.Client) -> None:
    """Only so much of it can be asked for, what lies near the top first; tags and data always."""
    deep: object = 1
    for _ in range(50):
        deep = {"deeper": deep}
    parameters = {f"p{n}": n for n in range(3000)} | {"deep": deep, "K" * 100_000: {"a": 1}}
    metadata = {"parameters": parameters, "tags": {"t": "1"}, "dataset": {"id": "d"}}
    push_plain(api, "net", "v1", {"a": b"1"}, metadata=metadata)
    assert find(api, dataset_id="d", tag="t=1") == ["v1"]
    found = [n for n in range(0, 3000, 60) if find(api, param=f"p{n}={n}")]
    assert 0 < len(found) < 50


def test_counts_follow_publishing(filled: httpx.Client) -> None:
    push_plain(filled, "team/net", "v1", {"again": b"no"})
    push_plain(filled, "team/net", "v2", {"config.json": b"{}", "copy.json": b"{}", "w": b"v2"})
    [model] = filled.get("/v1/models").json()["models"]
    assert (model["version_count"], model["latest"]) == (3, "v3")
    listed = filled.get("/v1/models/team/net/versions").json()["versions"]
    assert [version["dataset"] for version in listed] == [
        METADATA[version].get("dataset", {})
        | {"version": METADATA[version]["dataset"].get("version")}
        for version in ("v3", "v2", "v1")
    ]
    assert [version["git_commit"] for version in listed] == [None, "abcdff4567", "abcdef0123"]
