"""What a version was made from and what was made from it: bounded, and of what may be read."""

import httpx
import psycopg
import pytest
from sqlalchemy import Engine, text

from registry_api.db.migrate import downgrade, upgrade
from registry_api.settings import Settings
from tests.registry_api.conftest import Service, push_plain


def make(api: httpx.Client, name: str, *parents: str, **metadata: object) -> None:
    """Push ``model@version``, made from others."""
    model_id, _, version = name.partition("@")
    named = [dict(zip(("model_id", "version"), p.split("@"), strict=True)) for p in parents]
    files = {"a": name.encode()}
    done = push_plain(api, model_id, version, files, metadata={"parents": named, **metadata})
    assert done.json()["state"] == "ready", done.text


def ask(api: httpx.Client, name: str, **how: object) -> dict:
    model_id, _, version = name.partition("@")
    answer = api.get(f"/v1/models/{model_id}/versions/{version}/lineage", params=how)
    assert answer.status_code == 200, answer.text
    return answer.json()


def depths(lineage: dict) -> dict[str, int]:
    return {f"{n['model_id']}@{n['version']}": n["depth"] for n in lineage["nodes"]}


def edges(lineage: dict) -> set[tuple[str, str]]:
    return {
        tuple(f"{edge[end]['model_id']}@{edge[end]['version']}" for end in ("parent", "child"))
        for edge in lineage["edges"]
    }


@pytest.fixture
def family(api: httpx.Client) -> httpx.Client:
    """A base, two made of it, one of both of these and the base, and one of that."""
    make(api, "base@v1", git_commit="abcdef1", dataset={"id": "snli", "version": "1.0"})
    make(api, "left@v1", "base@v1")
    make(api, "right@v1", "base@v1")
    make(api, "merged@v1", "left@v1", "right@v1", "base@v1")
    make(api, "leaf@v1", "merged@v1")
    return api


def test_up_down_and_both(family: httpx.Client) -> None:
    whole = ask(family, "left@v1")
    assert depths(whole) == {"base@v1": -1, "left@v1": 0, "merged@v1": 1, "leaf@v1": 2}
    assert edges(whole) == {
        ("base@v1", "left@v1"),
        ("left@v1", "merged@v1"),
        ("base@v1", "merged@v1"),
        ("merged@v1", "leaf@v1"),
    }
    assert whole["cut"] is False
    assert depths(ask(family, "left@v1", direction="up")) == {"base@v1": -1, "left@v1": 0}
    assert depths(ask(family, "leaf@v1", direction="down")) == {"leaf@v1": 0}
    up = ask(family, "leaf@latest", direction="up")
    assert up["version"] == "v1"
    assert depths(up)["base@v1"] == -2, "the shortest way counts"
    assert len(up["nodes"]) == 5
    [base] = [node for node in up["nodes"] if node["model_id"] == "base"]
    assert base["dataset"] == {"id": "snli", "version": "1.0"}
    assert (base["git_commit"], base["yanked_at"]) == ("abcdef1", None)
    shown = family.get("/v1/models/base/versions/v1").json()
    for name in ("manifest_digest", "created_at", "created_by"):
        assert base[name] == shown[name]


def test_depth_and_nodes_are_bounded_and_say_so(family: httpx.Client) -> None:
    near = ask(family, "leaf@v1", depth=1)
    assert depths(near) == {"merged@v1": -1, "leaf@v1": 0}
    assert near["cut"] is True
    assert ask(family, "leaf@v1", depth=2)["cut"] is False
    few = ask(family, "base@v1", max_nodes=2)
    assert few["cut"] is True
    assert depths(few) == {"base@v1": 0, "merged@v1": 1}, "near ones first, of these the newest"
    assert edges(few) == {("base@v1", "merged@v1")}
    assert ask(family, "base@v1", max_nodes=5)["cut"] is False


def test_many_ways_to_the_same_versions_stay_bounded(api: httpx.Client) -> None:
    """Sixteen generations of two that are each made of both before: 65,536 ways to the first."""
    make(api, "a@v0")
    make(api, "b@v0")
    for n in range(1, 17):
        for name in ("a", "b"):
            make(api, f"{name}@v{n}", f"a@v{n - 1}", f"b@v{n - 1}")
    lineage = ask(api, "a@v16", direction="up", depth=100)
    assert (len(lineage["nodes"]), len(lineage["edges"]), lineage["cut"]) == (33, 62, False)


def test_what_may_not_be_read_is_left_out_and_what_lies_behind_it(
    service: Service, api: httpx.Client
) -> None:
    make(api, "open/base@v1")
    make(api, "secret/tuned@v1", "open/base@v1")
    make(api, "open/again@v1", "secret/tuned@v1", "open/base@v1")
    make(api, "open/last@v1", "secret/tuned@v1")
    narrow = service.client("reader", ["open/*"])
    assert depths(ask(narrow, "open/base@v1")) == {"open/base@v1": 0, "open/again@v1": 1}
    assert depths(ask(narrow, "open/last@v1")) == {"open/last@v1": 0}
    assert "secret" not in str(ask(narrow, "open/base@v1"))
    assert len(ask(api, "open/base@v1")["nodes"]) == 4
    refused = narrow.get("/v1/models/secret/tuned/versions/v1/lineage")
    assert refused.status_code == 403


def test_a_yanked_version_stays_in_the_lineage(family: httpx.Client) -> None:
    family.put("/v1/models/base/versions/v1/yank", json={"reason": "wrong data"})
    [base] = ask(family, "left@v1", direction="up")["nodes"][:1]
    assert base["yanked_at"] is not None


def test_what_is_not_there_is_not_found(family: httpx.Client) -> None:
    for path, code in (
        ("/v1/models/nowhere/versions/v1/lineage", "model_not_found"),
        ("/v1/models/base/versions/v9/lineage", "version_not_found"),
    ):
        answer = family.get(path)
        assert (answer.status_code, answer.json()["code"]) == (404, code)
    for wrong in ({"direction": "sideways"}, {"depth": 0}, {"max_nodes": 10_000}):
        answer = family.get("/v1/models/base/versions/v1/lineage", params=wrong)
        assert answer.status_code == 422


def test_no_version_can_be_made_of_itself_or_of_a_later_one(
    family: httpx.Client, engine: Engine
) -> None:
    circle = "INSERT INTO version_parent SELECT min(id), max(id) FROM version"
    itself = "INSERT INTO version_parent SELECT id, id FROM version"
    for statement in (circle, itself):
        with engine.connect() as connection, pytest.raises(Exception, match="parent_first") as info:
            connection.execute(text(statement))
        assert isinstance(info.value.__cause__, psycopg.errors.CheckViolation)


def test_the_migration_reads_the_parents_and_facts_that_are_there(
    family: httpx.Client, settings: Settings, engine: Engine
) -> None:
    asked = {"dataset_id": "snli"}
    before = ask(family, "leaf@v1"), family.get("/v1/versions", params=asked).json()
    counts = family.get("/v1/models").json()
    engine.dispose()
    downgrade(settings.database_url, "0003")
    upgrade(settings.database_url)
    assert (ask(family, "leaf@v1"), family.get("/v1/versions", params=asked).json()) == before
    assert family.get("/v1/models").json() == counts
