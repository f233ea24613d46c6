"""Bytes that lie somewhere already: shares, other machines' directories, parts that grow."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from ai_model import Registry
from ai_model.errors import NetworkError

LAYERS = 6
LAYER = 200 * 1000 * 4


@pytest.fixture
def weights(model_id, tmp_path):
    random = np.random.default_rng(list(model_id.encode()))
    names = [f"encoder.layer.{n}.weight" for n in range(LAYERS)]
    tensors = {name: random.random((200, 1000), dtype=np.float32) for name in names}
    save_file(tensors, tmp_path / "m.safetensors")
    return tmp_path / "m.safetensors"


@pytest.fixture
def machine(any_registry, new_client, weights, model_id):
    """Make machines of a registry with v1, and v2 of which one layer is new."""
    pusher = new_client(any_registry)
    pusher.push(weights, model_id, "v1")
    tensors = load_file(weights)
    tensors["encoder.layer.0.weight"] = tensors["encoder.layer.0.weight"] + 1
    save_file(tensors, weights)
    pusher.push(weights, model_id, "v2")
    return lambda: new_client(any_registry)


def test_a_directory_of_another_machine_is_copied_from(machine, weights, model_id, tmp_path):
    machine().get(model_id, "v1", output=tmp_path / "share")
    got = machine().get(model_id, "v2", output=tmp_path / "out", reuse=[tmp_path / "share"])
    assert got.bytes_fetched <= LAYER * 1.02
    assert got.bytes_reused >= (LAYERS - 1) * LAYER
    assert (tmp_path / "out" / "m.safetensors").read_bytes() == weights.read_bytes()


def test_a_shared_directory_is_brought_up_to_date(machine, weights, model_id, tmp_path):
    """Machines that share a disk find what the others got, without asking them."""
    machine().get(model_id, "v1", output=tmp_path / "share")
    assert machine().get(model_id, "v1", output=tmp_path / "share").bytes_fetched == 0
    got = machine().get(model_id, "v2", output=tmp_path / "share")
    assert got.bytes_fetched <= LAYER * 1.02
    assert (tmp_path / "share" / "m.safetensors").read_bytes() == weights.read_bytes()


def test_a_part_grows_by_what_it_lacks(machine, weights, model_id, tmp_path):
    out = tmp_path / "out"
    machine().get(model_id, "v2", layers="layer.[0-1]", output=out)
    grown = machine().get(model_id, "v2", layers="layer.[0-2]", output=out)
    assert grown.bytes_fetched <= LAYER * 1.02
    whole = machine().get(model_id, "v2", output=out)
    assert whole.bytes_fetched <= (LAYERS - 3) * LAYER * 1.02
    assert (out / "m.safetensors").read_bytes() == weights.read_bytes()


def test_a_share_that_lies_is_not_believed(machine, weights, model_id, tmp_path):
    share = tmp_path / "share"
    machine().get(model_id, "v2", output=share)
    (share / "m.safetensors").write_bytes(bytes(weights.stat().st_size))
    got = machine().get(model_id, "v2", output=tmp_path / "out", reuse=[share])
    assert got.bytes_reused == 0
    assert (tmp_path / "out" / "m.safetensors").read_bytes() == weights.read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        {"files": [{"path": "../../secret", "size": 1, "runs": [[0, 0, 1]]}]},
        {"files": [{"path": "m.safetensors", "size": 4_800_640, "runs": [[0, 0, 10**30]]}]},
        {"files": [{"path": "m.safetensors", "size": "many", "runs": "none"}]},
        {"manifest_digest": "sha256:" + "0" * 64},
        {"manifest_digest": 7, "files": {}},
        {"model_id": "../admin"},
    ],
)
def test_a_receipt_that_somebody_edited_does_no_harm(change, machine, model_id, weights, tmp_path):
    share = tmp_path / "share"
    machine().get(model_id, "v1", output=share)
    receipt = share / ".ai-model" / "receipt.json"
    receipt.write_text(json.dumps(json.loads(receipt.read_text()) | change))
    machine().get(model_id, "v2", output=tmp_path / "out", reuse=[share, tmp_path / "none"])
    assert (tmp_path / "out" / "m.safetensors").read_bytes() == weights.read_bytes()


def test_a_limit_holds_for_all_connections_both_ways(
    any_registry, new_client, weights, model_id, tmp_path
):
    """A lower bound on the time: it cannot fail because a machine is slow."""
    rate = 4_000_000
    limited = Registry(
        any_registry.endpoint,
        any_registry.token,
        cache_dir=tmp_path / "cache-limited",
        max_bandwidth="4MB/s",
        connections=8,
    )
    with limited as client:
        pushed = client.push(weights, model_id, "v1")
        got = client.get(model_id, "v1", output=tmp_path / "out")
    assert pushed.bytes_sent == got.bytes_fetched == weights.stat().st_size
    assert pushed.elapsed_s > pushed.bytes_sent / rate - 0.3
    assert got.elapsed_s > got.bytes_fetched / rate - 0.3


def test_a_fetch_that_fails_while_copies_are_made_is_what_is_told(
    machine, weights, model_id, tmp_path, monkeypatch
):
    machine().get(model_id, "v1", output=tmp_path / "share")

    def fail(*_):
        raise NetworkError("The store went away.")

    with monkeypatch.context() as broken:
        broken.setattr("ai_model.get.fetch.Fetcher.fetch", fail)
        with pytest.raises(NetworkError, match="went away"):
            machine().get(model_id, "v2", output=tmp_path / "out", reuse=[tmp_path / "share"])
    got = machine().get(model_id, "v2", output=tmp_path / "out", reuse=[tmp_path / "share"])
    assert got.bytes_fetched <= LAYER * 1.02
    assert (tmp_path / "out" / "m.safetensors").read_bytes() == weights.read_bytes()
