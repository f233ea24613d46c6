"""Push and get against real registries on both kinds of store."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from ai_model.errors import CorruptBytes, NoMatch, PathRefused, ResourceConflict, ResourceNotFound
from ai_model_format.digest import digest_of


@pytest.fixture
def tensors(model_id: str) -> dict[str, np.ndarray]:
    """Weights that no other test has, since equal bytes are stored once."""
    random = np.random.default_rng(list(model_id.encode()))
    shapes = {f"encoder.layer.{n}.weight": (256, 300) for n in range(4)}
    shapes |= {"decoder.weight": (500, 300), "decoder.bias": (7,), "scale": ()}
    return {name: random.random(shape, dtype=np.float32) for name, shape in shapes.items()}


@pytest.fixture
def folder(tmp_path: Path, tensors: dict[str, np.ndarray]) -> Path:
    """A model with odd names, an empty file, nesting and weights."""
    root = tmp_path / "model"
    (root / "tokenizer").mkdir(parents=True)
    save_file(tensors, root / "model.safetensors")
    (root / "config.json").write_text(json.dumps({"layers": 4}))
    (root / "tokenizer" / "wörter %20 list.txt").write_text("a\nb\n")
    (root / "empty").touch()
    (root / "link.json").symlink_to("config.json")
    return root


def contents(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and ".ai-model" not in path.parts
    }


def test_what_is_pushed_comes_back_byte_by_byte(
    any_registry, new_client, folder, model_id, tmp_path
):
    pushed = new_client(any_registry).push(folder, model_id, "v1", alias="production")
    assert pushed.created
    assert pushed.bytes_total == sum(len(data) for data in contents(folder).values())
    client = new_client(any_registry)
    got = client.get(model_id, "production", output=tmp_path / "out")
    assert contents(tmp_path / "out") == contents(folder)
    assert got.manifest_digest == pushed.manifest_digest
    assert got.bytes_reused == 0
    assert got.bytes_fetched <= got.bytes_selected
    for file in got.files:
        assert file.complete
        assert digest_of((tmp_path / "out" / file.path).read_bytes()) == file.sha256
    assert client.verify(tmp_path / "out").ok
    assert {path.name for path in (tmp_path / "out" / ".ai-model").iterdir()} == {
        "lock",
        "receipt.json",
    }


def test_a_layer_is_a_valid_file_of_just_its_tensors(
    any_registry, new_client, folder, tensors, model_id, tmp_path
):
    new_client(any_registry).push(folder, model_id, "v1")
    got = new_client(any_registry).get(
        model_id, "v1", layers="encoder", weights_only=True, output=tmp_path / "out"
    )
    wanted = {name: data for name, data in tensors.items() if name.startswith("encoder")}
    found = load_file(tmp_path / "out" / "model.safetensors")
    assert found.keys() == wanted.keys()
    assert all(np.array_equal(found[name], wanted[name]) for name in wanted)
    size = sum(data.nbytes for data in wanted.values())
    assert got.bytes_fetched <= size * 1.02 + 64 * 1024
    assert [file.path for file in got.files] == ["model.safetensors"]
    assert not got.files[0].complete
    assert digest_of((tmp_path / "out" / "model.safetensors").read_bytes()) == got.files[0].sha256


def test_again_is_a_success_and_other_bytes_a_conflict(
    any_registry, new_client, folder, model_id, tmp_path
):
    client = new_client(any_registry)
    first = client.push(folder, model_id, "v1")
    again = client.push(folder, model_id, "v1")
    assert (first.created, again.created) == (True, False)
    assert again.bytes_sent == 0
    (folder / "config.json").write_text("{}")
    with pytest.raises(ResourceConflict) as caught:
        client.push(folder, model_id, "v1")
    assert (caught.value.code, caught.value.exit_code) == ("version_conflict", 5)
    assert client.open(model_id, "v1").digest == first.manifest_digest


def test_a_fine_tune_moves_only_what_changed(
    any_registry, new_client, folder, tensors, model_id, tmp_path
):
    pusher, getter = new_client(any_registry), new_client(any_registry)
    pusher.push(folder, model_id, "v1")
    getter.get(model_id, "v1", output=tmp_path / "out")
    changed = tensors | {"decoder.bias": np.ones(7, dtype=np.float32)}
    changed["encoder.layer.2.weight"] = changed["encoder.layer.2.weight"] + 1
    save_file(changed, folder / "model.safetensors")
    delta = changed["encoder.layer.2.weight"].nbytes + 7 * 4
    pushed = pusher.push(folder, model_id, "v2")
    assert pushed.created
    assert delta <= pushed.bytes_sent <= delta * 1.02 + 64 * 1024
    elsewhere = getter.get(model_id, "v2", output=tmp_path / "elsewhere")
    in_place = getter.get(model_id, "v2", output=tmp_path / "out")
    assert contents(tmp_path / "elsewhere") == contents(folder) == contents(tmp_path / "out")
    assert delta <= elsewhere.bytes_fetched <= delta * 1.02 + 64 * 1024
    assert in_place.bytes_fetched == 0
    fresh = new_client(any_registry).get(model_id, "v2", output=tmp_path / "fresh")
    assert contents(tmp_path / "fresh") == contents(folder)
    assert fresh.bytes_reused == 0


def test_a_flipped_byte_in_the_store_is_named_and_nothing_is_touched(
    any_registry, new_client, folder, tensors, model_id, tmp_path
):
    new_client(any_registry).push(folder, model_id, "v1")
    out = tmp_path / "out"
    out.mkdir()
    (out / "model.safetensors").write_bytes(b"what was here before")
    weights = folder / "model.safetensors"
    digest = digest_of(weights.read_bytes())
    data = bytearray(any_registry.read_object(digest))
    place = data.index(tensors["encoder.layer.3.weight"].tobytes()) + 1000
    data[place] ^= 1
    any_registry.overwrite_object(digest, bytes(data))
    with pytest.raises(CorruptBytes, match=r"encoder\.layer\.3\.weight") as caught:
        new_client(any_registry).get(model_id, "v1", output=out)
    assert caught.value.exit_code == 6
    assert caught.value.tensors == ("encoder.layer.3.weight",)
    assert contents(out) == {"model.safetensors": b"what was here before"}
    assert not list((out / ".ai-model").glob("partial-*"))
    got = new_client(any_registry).get(model_id, "v1", layers="decoder", output=tmp_path / "ok")
    assert got.files


def test_get_again_reuses_and_repairs(any_registry, new_client, folder, model_id, tmp_path):
    client = new_client(any_registry)
    client.push(folder, model_id, "v1")
    out = tmp_path / "out"
    first = client.get(model_id, "v1", output=out)
    before = (out / "model.safetensors").stat().st_mtime_ns
    again = client.get(model_id, "v1", output=out)
    assert (again.bytes_fetched, again.bytes_reused) == (0, first.bytes_selected)
    assert (out / "model.safetensors").stat().st_mtime_ns == before
    damaged = bytearray((out / "model.safetensors").read_bytes())
    damaged[-1] ^= 1
    (out / "model.safetensors").write_bytes(damaged)
    (out / "config.json").unlink()
    result = client.verify(out)
    assert not result.ok
    states = {file.path: (file.status, file.tensors) for file in result.files}
    with safe_open(folder / "model.safetensors", "np") as file:
        last = max(file.offset_keys(), key=list(file.offset_keys()).index)
    assert states["model.safetensors"] == ("bad", (last,))
    assert states["config.json"][0] == "missing"
    repaired = client.get(model_id, "v1", output=out)
    assert contents(out) == contents(folder)
    assert repaired.bytes_fetched < first.bytes_fetched
    assert client.verify(out).ok


def test_load_gives_arrays(any_registry, new_client, folder, tensors, model_id):
    client = new_client(any_registry)
    client.push(folder, model_id, "v1")
    arrays = client.load(model_id, "v1", layers="encoder.layer.[1-2]")
    assert sorted(arrays) == ["encoder.layer.1.weight", "encoder.layer.2.weight"]
    assert np.array_equal(arrays["encoder.layer.1.weight"], tensors["encoder.layer.1.weight"])


def test_metadata_groups_and_layers(registry_server, new_client, folder, model_id, tmp_path):
    client = new_client(registry_server)
    metadata = {
        "dataset": {"id": "imagenet", "version": "2012"},
        "parameters": {"lr": 0.1, "big": ["x" * 1000] * 1100},
        "metrics": {"top1": 0.76},
        "git_commit": "0" * 40,
        "groups": {"front": ["encoder.layer.[0-1]", "scale"]},
    }
    client.push(folder, model_id, "v1", metadata=metadata)
    version = client.open(model_id)
    assert version.info.metadata.model_dump(exclude_defaults=True) == metadata
    assert version.layers().children["encoder"].tensors == 4
    client.get(model_id, "v1", layers="front", weights_only=True, output=tmp_path / "out")
    assert sorted(load_file(tmp_path / "out" / "model.safetensors")) == [
        "encoder.layer.0.weight",
        "encoder.layer.1.weight",
        "scale",
    ]


def test_what_is_not_there(registry_server, new_client, folder, model_id, tmp_path):
    client = new_client(registry_server)
    with pytest.raises(ResourceNotFound) as caught:
        client.get(model_id, "v1", output=tmp_path / "out")
    assert caught.value.code == "model_not_found"
    client.push(folder, model_id, "v1")
    with pytest.raises(ResourceNotFound) as caught:
        client.get(model_id, "v9", output=tmp_path / "out")
    assert caught.value.code == "version_not_found"
    with pytest.raises(NoMatch) as near:
        client.get(model_id, "v1", layers="enkoder", output=tmp_path / "out")
    assert "encoder" in near.value.near
    assert not (tmp_path / "out").exists()


def test_aliases_move_only_from_where_they_are_expected(
    registry_server, new_client, folder, model_id
):
    client = new_client(registry_server)
    client.push(folder, model_id, "v1")
    (folder / "config.json").write_text("[]")
    client.push(folder, model_id, "v2")
    client.set_alias(model_id, "live", "v1", create_only=True)
    with pytest.raises(ResourceConflict):
        client.set_alias(model_id, "live", "v2", create_only=True)
    with pytest.raises(ResourceConflict):
        client.set_alias(model_id, "live", "v2", expect_version="v2")
    assert client.set_alias(model_id, "live", "v2", expect_version="v1").version == "v2"
    client.remove_alias(model_id, "live")
    assert client.aliases(model_id) == []


def test_only_the_shards_needed_and_an_index_that_says_so(
    any_registry, new_client, tensors, model_id, tmp_path
):
    root = tmp_path / "sharded"
    root.mkdir()
    names = sorted(tensors)
    shards = {"model-00001-of-00002.safetensors": names[:3]}
    shards["model-00002-of-00002.safetensors"] = names[3:]
    for shard, members in shards.items():
        save_file({name: tensors[name] for name in members}, root / shard)
    index = {
        "metadata": {"total_size": sum(array.nbytes for array in tensors.values())},
        "weight_map": {name: shard for shard, members in shards.items() for name in members},
    }
    (root / "model.safetensors.index.json").write_text(json.dumps(index))
    client = new_client(any_registry)
    client.push(root, model_id, "v1")
    out = tmp_path / "out"
    client.get(model_id, "v1", layers="decoder", output=out)
    assert sorted(contents(out)) == [
        "model-00001-of-00002.safetensors",
        "model.safetensors.index.json",
    ]
    found = json.loads((out / "model.safetensors.index.json").read_bytes())
    assert sorted(found["weight_map"]) == ["decoder.bias", "decoder.weight"]
    size = tensors["decoder.bias"].nbytes + tensors["decoder.weight"].nbytes
    assert found["metadata"]["total_size"] == size
    assert sorted(load_file(out / "model-00001-of-00002.safetensors")) == sorted(
        found["weight_map"]
    )
    assert client.verify(out).ok


def test_nothing_is_written_through_links(registry_server, new_client, folder, model_id, tmp_path):
    client = new_client(registry_server)
    client.push(folder, model_id, "v1")
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    out.mkdir()
    elsewhere.mkdir()
    (out / "tokenizer").symlink_to(elsewhere)
    with pytest.raises(PathRefused, match="link"):
        client.get(model_id, "v1", output=out)
    assert list(elsewhere.iterdir()) == []
    (out / "tokenizer").unlink()
    (elsewhere / "precious").write_text("kept")
    (out / "config.json").symlink_to(elsewhere / "precious")
    client.get(model_id, "v1", output=out)
    assert (elsewhere / "precious").read_text() == "kept"
    assert contents(out) == contents(folder)


def test_an_output_that_cannot_be_written_is_said(
    registry_server, new_client, folder, model_id, tmp_path
):
    client = new_client(registry_server)
    client.push(folder, model_id, "v1")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(PathRefused, match="not a directory"):
        client.get(model_id, "v1", output=tmp_path / "file" / "out")
    (tmp_path / "out" / "config.json").mkdir(parents=True)
    with pytest.raises(PathRefused, match="directory where a file is to be"):
        client.get(model_id, "v1", output=tmp_path / "out")


GET_AND_NAME_MODULES = """
import sys
from ai_model import Registry
with Registry() as registry:
    registry.get(sys.argv[1], "v1", layers="encoder", output=sys.argv[2])
print(*sys.modules)
"""


def test_a_get_imports_nothing_that_costs_more_than_its_requests(
    any_registry, new_client, folder, model_id, tmp_path
):
    client = new_client(any_registry)
    client.push(folder, model_id, "v1")
    settings = {
        "AI_MODEL_ENDPOINT": client.config.endpoint,
        "AI_MODEL_TOKEN": client.config.token,
        "AI_MODEL_CACHE": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        [sys.executable, "-c", GET_AND_NAME_MODULES, model_id, str(tmp_path / "out")],
        env=os.environ | settings, capture_output=True, text=True, check=True,
    )  # fmt: skip
    loaded = set(done.stdout.split())
    assert loaded >= {"httpx", "ai_model.get.run"}
    assert not loaded & {"pydantic", "ai_model_format.formats.torch_zip"}
