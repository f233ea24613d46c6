"""Indexes of sharded models: plain names only, and filtered ones that count right."""

import json
from typing import Any

import pytest

from ai_model_format.formats.interface import InvalidWeightFile
from ai_model_format.formats.sharded import (
    check_shards,
    filter_index,
    is_index_path,
    parse_shard_index,
)
from ai_model_format.manifest import Tensor

ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
SHARDS = {
    ONE: [Tensor("enc.w", "F32", (2, 3), 8, 32), Tensor("enc.b", "F16", (3,), 32, 38)],
    TWO: [Tensor("dec.w", "F32", (5,), 8, 28)],
}
MAP = {"enc.w": ONE, "enc.b": ONE, "dec.w": TWO}
NAMES = {shard: [t.name for t in tensors] for shard, tensors in SHARDS.items()}


def index_bytes(**changes: Any) -> bytes:
    metadata = {"total_size": 50, "total_parameters": 14, "note": "é"}
    return json.dumps({"metadata": metadata, "weight_map": MAP, **changes}).encode()


def test_a_sound_index_and_its_shards_pass() -> None:
    index = parse_shard_index(index_bytes())
    assert index.shards == [ONE, TWO]
    check_shards(index, NAMES)


def test_filtering_keeps_metadata_and_counts_anew() -> None:
    index = parse_shard_index(index_bytes(format="x"))
    data = filter_index(index, {ONE: SHARDS[ONE]}, ["enc.w", "enc.b"])
    value = json.loads(data)
    assert value["weight_map"] == {"enc.w": ONE, "enc.b": ONE}
    assert value["metadata"] == {"total_size": 30, "total_parameters": 9, "note": "é"}
    assert value["format"] == "x"
    check_shards(parse_shard_index(data), {ONE: NAMES[ONE]})


def test_totals_that_were_not_there_are_not_added() -> None:
    index = parse_shard_index(json.dumps({"weight_map": MAP}).encode())
    assert json.loads(filter_index(index, SHARDS, ["dec.w"]))["metadata"] == {}


def test_tied_tensors_count_once() -> None:
    shard = "pytorch_model-00001-of-00001.bin"
    tied = [Tensor(n, "F32", (4,), 64, 80, storage="0", key_path=(n,)) for n in ("a", "b")]
    text = json.dumps({"metadata": {"total_size": 16}, "weight_map": {"a": shard, "b": shard}})
    data = filter_index(parse_shard_index(text.encode()), {shard: tied}, ["a", "b"])
    assert json.loads(data)["metadata"] == {"total_size": 16}


def test_choosing_what_is_not_there_is_refused() -> None:
    index = parse_shard_index(index_bytes())
    with pytest.raises(InvalidWeightFile, match=r"no tensor 'enc\.x'"):
        filter_index(index, SHARDS, ["enc.x", "enc.w"])


@pytest.mark.parametrize(
    "shard",
    ["../evil", "/etc/passwd", "a/b", "..", ".", "", "a\\b", "a\0b", 7, None, "\ud800", "a" * 300],
)
def test_only_plain_file_names(shard: Any) -> None:
    with pytest.raises(InvalidWeightFile, match=r"tensor 'enc\.w': shard .* not a plain file name"):
        parse_shard_index(json.dumps({"weight_map": {"enc.w": shard}}).encode())


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"[]", "not a JSON object"),
        (b"{}", "no weight_map"),
        (b'{"weight_map":[]}', "no weight_map"),
        (b'{"weight_map":{},"metadata":1}', "metadata is not an object"),
        (b'{"weight_map":{"a":"x","a":"y"}}', "names 'a' twice"),
        (b'{"metadata":{"x":NaN},"weight_map":{}}', "NaN, which is not JSON"),
        (b'{"weight_map":{"\\ud800":"x"}}', "not valid Unicode"),
        (b'{"a":' + b"[" * 100_000, "nested too deep"),
        (b"\xff\xfe{\0}\0", "not JSON"),
        (b'{"a":[' + b"[]," * 5_000_000 + b"[]]}", "brackets and commas"),
    ],
)
def test_hostile_indexes_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(InvalidWeightFile, match=reason):
        parse_shard_index(data)


@pytest.mark.parametrize(
    ("shards", "reason"),
    [
        ({ONE: NAMES[ONE]}, f"no shard '{TWO}'"),
        ({ONE: ["enc.w"], TWO: NAMES[TWO]}, "'enc.b' is in None"),
        ({ONE: NAMES[ONE], TWO: ["dec.w", "dec.x"]}, "'dec.x' is in .* the index says None"),
        ({ONE: NAMES[ONE], TWO: ["dec.w", "enc.w"]}, f"'enc.w' is in '{ONE}' and in '{TWO}'"),
    ],
)
def test_shards_that_do_not_fit_are_refused(shards: dict[str, list[str]], reason: str) -> None:
    with pytest.raises(InvalidWeightFile, match=reason):
        check_shards(parse_shard_index(index_bytes()), shards)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("model.safetensors.index.json", True),
        ("unet/diffusion_pytorch_model.safetensors.index.json", True),
        ("pytorch_model.bin.index.json", True),
        ("index.json", False),
        ("model.safetensors", False),
    ],
)
def test_indexes_are_known_by_name(path: str, expected: bool) -> None:
    assert is_index_path(path) is expected
