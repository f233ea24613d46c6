"""Which files and tensors a get takes."""

import json

import pytest

from ai_model.errors import NoMatch, UsageError
from ai_model.get.outputs import make_output, structure_of
from ai_model.get.select import Selection, select
from ai_model_format.byte_range import ByteRange
from ai_model_format.digest import digest_of
from ai_model_format.manifest import Chunk, File, Manifest, Tensor


def weights(path: str, names: list[str]) -> File:
    digest = digest_of(b"x" * 4)
    tensors = tuple(
        Tensor(name, "F32", (1,), 4 * n, 4 * n + 4, digest) for n, name in enumerate(names)
    )
    size = 4 * len(names)
    chunks = tuple(Chunk(digest, 4) for _ in names)
    return File(path, size, digest_of(b"x" * size), "x/x", "safetensors", chunks, tensors)


def other(path: str, data: bytes = b"{}") -> File:
    digest = digest_of(data)
    return File(path, len(data), digest, "x/x", "opaque", (Chunk(digest, len(data)),))


INDEX = json.dumps(
    {
        "metadata": {"total_size": 16, "kept": "yes"},
        "weight_map": {
            "encoder.a": "model-1.safetensors",
            "encoder.b": "model-1.safetensors",
            "head.a": "model-2.safetensors",
            "head.b": "model-2.safetensors",
        },
    }
).encode()
MANIFEST = Manifest(
    (
        other("config.json"),
        weights("model-1.safetensors", ["encoder.a", "encoder.b"]),
        weights("model-2.safetensors", ["head.a", "head.b"]),
        other("model.safetensors.index.json", INDEX),
    )
)


def chosen(groups=None, **selection):
    return {c.file.path: c for c in select(MANIFEST, Selection(**selection), groups or {})}


def test_nothing_asked_takes_everything_whole():
    assert all(item.is_whole for item in chosen().values())
    assert list(chosen()) == [file.path for file in MANIFEST.files]


def test_layers_take_only_the_shards_needed_and_what_is_no_weight_file():
    taken = chosen(layers=("encoder",))
    assert list(taken) == ["config.json", "model-1.safetensors", "model.safetensors.index.json"]
    assert taken["model-1.safetensors"].is_whole
    assert not taken["model.safetensors.index.json"].is_whole


def test_part_of_a_shard():
    assert chosen(layers=("*.a",))["model-2.safetensors"].tensors == frozenset({"head.a"})


def test_weights_only_keeps_the_index():
    taken = chosen(layers=("head",), weights_only=True)
    assert list(taken) == ["model-2.safetensors", "model.safetensors.index.json"]


def test_exclude_groups_and_globs():
    assert chosen(exclude=("head",)).keys() == chosen(layers=("encoder",)).keys()
    assert "model-2.safetensors" in chosen({"mine": ["head"]}, layers=("mine",))
    assert list(chosen(files=("*.json",))) == ["config.json", "model.safetensors.index.json"]


@pytest.mark.parametrize(
    "selection",
    [{"layers": ("encodr",)}, {"files": ("confg.json",)}, {"exclude": ("encoder,head",)}],
)
def test_no_match_names_what_is_near(selection):
    with pytest.raises(NoMatch) as caught:
        chosen(**selection)
    assert caught.value.exit_code == 3
    if "exclude" not in selection:
        assert caught.value.near


def test_a_pattern_that_cannot_be_read():
    with pytest.raises(UsageError):
        chosen(layers=("a..b",))


def test_the_index_of_shards_names_just_what_was_taken():
    taken = chosen(layers=("*.a",))["model.safetensors.index.json"]
    assert structure_of(taken) == [ByteRange(0, len(INDEX))]
    output = make_output(taken, lambda path, start, end: INDEX[start:end])
    index = json.loads(next(data for _, data in output.literals()))
    assert index["weight_map"] == {
        "encoder.a": "model-1.safetensors",
        "head.a": "model-2.safetensors",
    }
    assert index["metadata"] == {"total_size": 8, "kept": "yes"}
