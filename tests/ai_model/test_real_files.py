"""Real trained models: their layers cost little more than their bytes, and load."""

import subprocess

import numpy as np
import pytest
from safetensors.numpy import load_file

from ai_model_format.digest import digest_of

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("name", "layer"),
    [("minilm", "encoder"), ("minilm", "encoder.layer.0"), ("silero", "conv1")],
)
def test_layers_of_real_safetensors(
    name, layer, real_file, any_registry, new_client, model_id, tmp_path
):
    path = real_file(name)
    new_client(any_registry).push(path, model_id, "v1")
    client = new_client(any_registry)
    got = client.get(model_id, "v1", layers=layer, output=tmp_path / "out")
    whole, part = load_file(path), load_file(tmp_path / "out" / path.name)
    assert 0 < len(part) < len(whole)
    assert all(f".{layer}." in f".{key}." for key in part)
    assert all(np.array_equal(part[key], whole[key]) for key in part)
    size = sum(array.nbytes for array in part.values())
    assert got.bytes_fetched <= size * 1.02 + 64 * 1024


@pytest.mark.parametrize(
    ("name", "layer"),
    [("ligandmpnn", "encoder_layers"), ("antiberty", "bert.encoder")],
)
def test_layers_of_real_torch_files(
    name, layer, real_file, registry_server, new_client, model_id, tmp_path
):
    path = real_file(name)
    new_client(registry_server).push(path, model_id, "v1")
    client = new_client(registry_server)
    got = client.get(model_id, "v1", layers=layer, output=tmp_path / "out")
    file = tmp_path / "out" / path.name
    assert torch.load(file, weights_only=True, map_location="cpu")
    selected = [
        tensor
        for tensor in client.open(model_id).files[0].tensors
        if f".{layer}." in f".{tensor.name}."
    ]
    size = sum(tensor.range.size for tensor in selected)
    assert size <= got.bytes_fetched <= size * 1.02 + 64 * 1024
    arrays = client.load(model_id, "v1", layers=layer, framework="torch")
    assert arrays.keys() == {tensor.name for tensor in selected}
    assert digest_of(file.read_bytes()) == got.files[0].sha256


def test_the_whole_of_a_real_model_has_its_digest_on_disk(
    real_file, any_registry, new_client, model_id, tmp_path
):
    path = real_file("minilm")
    new_client(any_registry).push(path, model_id, "v1")
    got = new_client(any_registry).get(model_id, "v1", output=tmp_path / "out")
    checked = subprocess.run(
        ["sha256sum", "-c", "-"],
        input=f"{got.files[0].sha256.removeprefix('sha256:')}  {got.output / path.name}\n",
        text=True,
        check=False,
        capture_output=True,
    )
    assert checked.returncode == 0
