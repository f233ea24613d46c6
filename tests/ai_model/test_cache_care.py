"""The cache listed, pruned and verified; directories that gets wrote are never touched."""

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from ai_model import Registry

DAY_S = 86_400


@pytest.fixture
def client(registry_server, new_client, model_id, tmp_path) -> Registry:
    """A client that got two versions, and loaded a layer of one of them."""
    random = np.random.default_rng(list(model_id.encode()))
    client = new_client(registry_server)
    for version in ("v1", "v2"):
        tensors = {f"block.{n}": random.random((100, 100), dtype=np.float32) for n in range(4)}
        save_file(tensors, tmp_path / "m.safetensors")
        client.push(tmp_path / "m.safetensors", model_id, version)
        client.get(model_id, version, output=tmp_path / version)
    client.load(model_id, "v2", layers="block.1")
    return client


def kinds(client: Registry) -> dict[str, int]:
    items = client.cache_list().items
    return {kind: sum(i.kind == kind for i in items) for kind in ("manifest", "loaded", "note")}


def make_old(path: Path, *, days: float) -> None:
    then = time.time() - days * DAY_S
    os.utime(path, (then, then))


def manifest_of(client: Registry, model_id: str, version: str) -> Path:
    digest = client.open(model_id, version).digest
    return client.config.cache_dir / "manifests" / f"{digest.removeprefix('sha256:')}.json"


def test_everything_is_listed(client, model_id, tmp_path):
    found = client.cache_list()
    assert kinds(client) == {"manifest": 2, "loaded": 1, "note": 3}
    roots = {item.name for item in found.items if item.kind == "note"}
    assert {str(tmp_path / "v1"), str(tmp_path / "v2")} <= roots
    own = [path for path in client.config.cache_dir.rglob("*") if path.is_file()]
    notes = [path for path in own if path.parent.name == "held"]
    assert found.bytes_own == sum(path.stat().st_size for path in set(own) - set(notes))
    assert found.bytes_noted > 2 * 4 * 40_000
    assert [i.used_at for i in found.items] == sorted(
        (i.used_at for i in found.items), reverse=True
    )


def test_what_was_not_used_for_long_goes(client, model_id, tmp_path):
    make_old(manifest_of(client, model_id, "v1"), days=40)
    make_old(manifest_of(client, model_id, "v2"), days=20)
    assert client.cache_prune(older_than_s=30 * DAY_S).bytes_freed > 0
    assert kinds(client) == {"manifest": 1, "loaded": 1, "note": 3}
    assert manifest_of(client, model_id, "v2").exists()
    assert (tmp_path / "v1" / "m.safetensors").exists()
    assert client.get(model_id, "v1", output=tmp_path / "v1").bytes_fetched == 0


def test_use_keeps_a_manifest_young(client, model_id, tmp_path):
    for version in ("v1", "v2"):
        make_old(manifest_of(client, model_id, version), days=40)
    assert client.open(model_id, "v2").manifest.size
    client.cache_prune(older_than_s=30 * DAY_S)
    assert not manifest_of(client, model_id, "v1").exists()
    assert manifest_of(client, model_id, "v2").exists()


def test_the_least_used_goes_until_the_rest_fits(client, model_id):
    make_old(manifest_of(client, model_id, "v2"), days=2)
    make_old(manifest_of(client, model_id, "v1"), days=3)
    oldest = manifest_of(client, model_id, "v1").stat().st_size
    own = client.cache_list().bytes_own
    done = client.cache_prune(max_bytes=own - 1)
    assert (done.bytes_freed, done.bytes_kept) == (oldest, own - oldest)
    assert not manifest_of(client, model_id, "v1").exists()


def test_loaded_files_stay_while_they_may_be_read(client, model_id):
    assert kinds(client)["loaded"] == 1
    client.cache_prune(max_bytes=0)
    assert kinds(client) == {"manifest": 0, "loaded": 1, "note": 3}
    (loaded,) = (Path(i.name) for i in client.cache_list().items if i.kind == "loaded")
    make_old(loaded, days=1)
    client.cache_prune(max_bytes=0)
    assert kinds(client) == {"manifest": 0, "loaded": 0, "note": 2}
    assert client.load(model_id, "v2", layers="block.1").keys() == {"block.1"}


def test_notes_that_lead_nowhere_go(client, model_id, tmp_path):
    (tmp_path / "v1" / "m.safetensors").unlink()
    (client.config.cache_dir / "held" / f"{'0' * 32}.json").write_text("{")
    removed = client.cache_prune().removed
    assert {item.name for item in removed} == {str(tmp_path / "v1"), f"{'0' * 32}.json"}


def test_every_byte_is_hashed(client, model_id, tmp_path):
    good = client.cache_verify()
    assert good.ok
    assert good.bytes_verified > 2 * 4 * 40_000
    weights = tmp_path / "v1" / "m.safetensors"
    before, data = weights.stat(), bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))
    manifest = manifest_of(client, model_id, "v2")
    manifest.write_bytes(manifest.read_bytes()[:-1] + b" ")
    bad = client.cache_verify()
    assert not bad.ok
    reasons = {Path(problem.path): problem.reason for problem in bad.problems}
    assert reasons[weights] == "40,000 bytes lie in chunks with another digest"
    assert reasons[manifest] == "is not the manifest it is named as"
    assert "manifest is not in the cache" in reasons[tmp_path / "v2" / "m.safetensors"]


def test_a_cache_that_is_not_there_is_empty(tmp_path):
    with Registry("http://127.0.0.1:9", cache_dir=tmp_path / "none") as client:
        assert client.cache_list().items == ()
        assert client.cache_prune(older_than_s=0, max_bytes=0).removed == ()
        assert client.cache_verify().ok


def test_the_command_needs_no_registry(client, shell):
    shell.environment["AI_MODEL_ENDPOINT"] = "http://127.0.0.1:9"
    shell.environment["AI_MODEL_CACHE"] = str(client.config.cache_dir)
    listed = shell.json("cache", "ls")
    assert {item["kind"] for item in listed["items"]} == {"manifest", "loaded", "note"}
    assert shell.lines("cache", "verify")[-1].endswith("all is well.")
    assert "Removed" in shell.lines("cache", "prune", "--older-than", "30d")[0]
    shell.run("cache", "prune", "--older-than", "soon", code=2)
    shell.run("cache", "prune", "--max-size", "-1", code=2)
    for note in (client.config.cache_dir / "held").iterdir():
        value = json.loads(note.read_bytes())
        value["files"][0]["mtime_ns"] = 1
        note.write_text(json.dumps(value))
    assert shell.json("cache", "verify", code=6)["ok"] is False
