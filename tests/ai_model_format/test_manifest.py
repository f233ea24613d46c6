"""Manifests: canonical bytes, every rule, and nothing but InvalidManifest from hostile ones."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch
from hypothesis import given, settings
from hypothesis import strategies as some

from ai_model_format.byte_range import ByteRange
from ai_model_format.chunks import plan_chunks
from ai_model_format.digest import digest_of
from ai_model_format.formats.detect import index_file
from ai_model_format.manifest import (
    Chunk,
    File,
    InvalidManifest,
    Manifest,
    Tensor,
    canonical_json,
    manifest_digest,
)
from ai_model_format.manifest_reader import parse_manifest
from ai_model_format.manifest_rules import check_manifest

GOLDEN = Path(__file__).parent / "golden" / "manifest.json"


def file_of(path: str, data: bytes) -> File:
    """Index and hash a file as a push does."""
    format, index = index_file(lambda a, b: data[a:b], len(data))
    borders = [*(t.range for t in index.tensors), *index.structure, *index.borders]
    chunks = plan_chunks(len(data), borders)
    return File(
        path=path,
        size=len(data),
        sha256=digest_of(data),
        media_type=format.media_type,
        format=format.name,
        chunks=tuple(Chunk(digest_of(data[c.start : c.end]), c.size) for c in chunks),
        tensors=tuple(replace(t, digest=digest_of(data[t.start : t.end])) for t in index.tensors),
        structure=tuple(index.structure),
    )


def samples() -> Manifest:
    arrays = {"enc.w": np.arange(6, dtype=np.float32).reshape(2, 3), "enc.e": np.zeros((0, 2))}
    return Manifest(
        (
            file_of("a b/é.txt", b"hello"),
            file_of("empty", b""),
            file_of("model.safetensors", safetensors.numpy.save(arrays)),
        )
    )


def torch_file() -> File:
    base = torch.arange(12.0).reshape(3, 4)
    value = {"w": base, "t": base.t(), 3: [base[1], torch.zeros(0)]}
    out = io.BytesIO()
    torch.save(value, out)
    return file_of("model.pt", out.getvalue())


def test_the_golden_manifest() -> None:
    """What a manifest says is fixed for ever: digests of versions depend on each byte."""
    data = samples().to_bytes()
    assert data == GOLDEN.read_bytes()
    assert manifest_digest(data) == digest_of(data)


@pytest.mark.parametrize("manifest", [samples(), Manifest((torch_file(),))])
def test_bytes_and_manifest_say_the_same(manifest: Manifest) -> None:
    check_manifest(manifest)
    data = manifest.to_bytes()
    assert parse_manifest(data) == manifest
    assert parse_manifest(data).to_bytes() == data


@pytest.mark.parametrize("name", ["silero", "ligandmpnn", "antiberty", "resemblyzer"])
def test_real_files_make_sound_manifests(real_file: Callable[[str], Path], name: str) -> None:
    manifest = Manifest((file_of("weights", real_file(name).read_bytes()),))
    assert parse_manifest(manifest.to_bytes()) == manifest


def test_chunks_tile_tensors_and_nothing_else() -> None:
    file = samples().files[2]
    for tensor in file.tensors:
        covering = file.chunks_in(tensor.range)
        assert sum(file.chunks[i].size for i in covering) == tensor.range.size
    with pytest.raises(InvalidManifest, match="no chunks tile"):
        file.chunks_in(ByteRange(1, 3))
    with pytest.raises(InvalidManifest, match="no chunks tile"):
        file.chunks_in(ByteRange(0, file.size + 1))


OTHER = digest_of(b"other")


def broken(change: Callable[[dict[str, Any]], object]) -> bytes:
    value = json.loads(GOLDEN.read_bytes())
    change(value)
    return canonical_json(value)


def text(value: dict[str, Any]) -> dict[str, Any]:
    return value["files"][0]


def model(value: dict[str, Any]) -> dict[str, Any]:
    return value["files"][2]


def put_below_a_file(value: dict[str, Any]) -> None:
    value["files"][0]["path"], value["files"][1]["path"] = "empt", "empt/y"


def tensor(number: int, **changes: Any) -> Callable[[dict[str, Any]], object]:
    return lambda value: model(value)["tensors"][number].update(changes)


def chunk(*values: Any) -> Callable[[dict[str, Any]], object]:
    return lambda value: text(value)["chunks"].append(list(values))


def only_chunk(*values: Any) -> Callable[[dict[str, Any]], object]:
    return lambda value: text(value).update(chunks=[list(values)])


RULES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "no files": (lambda v: v["files"].clear(), "at least one file"),
    "files out of order": (lambda v: v["files"].reverse(), "sorted by path"),
    "a path twice": (lambda v: v["files"].insert(0, v["files"][0]), "each path once"),
    "below a file": (put_below_a_file, "below a file"),
    "path escape": (lambda v: text(v).update(path="../x"), "file path '../x'"),
    "schema": (lambda v: v.update(schema=2), "schema 2"),
    "schema true": (lambda v: v.update(schema=True), "not canonical"),
    "unknown field": (lambda v: text(v).update(extra=1), "not canonical"),
    "unknown field above": (lambda v: v.update(extra=1), "not canonical"),
    "unknown field of a tensor": (tensor(1, extra=1), "not canonical"),
    "an empty list": (lambda v: text(v).update(tensors=[]), "not canonical"),
    "no structure, but said": (lambda v: model(v).update(structure=[]), "not canonical"),
    "null for nothing": (tensor(1, storage=None), "not canonical"),
    "a chunk of an object": (lambda v: text(v).update(chunks=[{OTHER: 5, "x": 1}]), "not an"),
    "digest": (lambda v: text(v).update(sha256="x"), "digest 'x'"),
    "chunks do not cover": (lambda v: text(v).update(size=6), "cover 5 of 6"),
    "empty chunk": (chunk(OTHER, 0), "chunk size 0"),
    "huge chunk": (chunk(OTHER, 2**24 + 1), "chunk size 16777217"),
    "only chunk differs": (only_chunk(OTHER, 5), "another digest than the file"),
    "chunk is short": (only_chunk(OTHER), "unpack"),
    "empty file": (lambda v: v["files"][1].update(sha256=OTHER), "digest of nothing"),
    "opaque with tensors": (lambda v: model(v).update(format="opaque"), "no tensors"),
    "tensor name twice": (tensor(1, name="enc.e"), "share a name"),
    "tensor outside": (tensor(1, end=10**9), "'enc.w'.*outside"),
    "tensor off the chunks": (tensor(1, start=1), "'enc.w'.*no chunks"),
    "tensor digest": (tensor(1, digest=OTHER), "only chunk has another"),
    "empty tensor digest": (tensor(0, digest=OTHER), "than nothing"),
    "negative shape": (tensor(1, shape=[-1]), "shape is negative"),
    "float shape": (tensor(1, shape=[1.5]), "not an integer"),
    "huge number": (tensor(1, shape=[2**60]), "not an integer"),
    "NUL": (tensor(1, name="a\0"), "holds NUL"),
    "long name": (tensor(1, name="a" * 5000), "longer than 4096"),
    "structure off": (lambda v: model(v).update(structure=[[0, 1]]), "no chunks tile"),
    "structure overlaps": (lambda v: model(v).update(structure=[[0, 8], [0, 8]]), "overlap"),
    "structure backwards": (lambda v: model(v).update(structure=[[8, 0]]), "not a byte range"),
    "files is text": (lambda v: v.update(files="x"), "not a list"),
    "file is text": (lambda v: v.update(files=["x"]), "wrong type"),
    "no path": (lambda v: text(v).pop("path"), "missing"),
}


@pytest.mark.parametrize(("change", "reason"), RULES.values(), ids=RULES)
def test_every_rule_is_checked(change: Callable[[dict[str, Any]], object], reason: str) -> None:
    with pytest.raises(InvalidManifest, match=reason):
        parse_manifest(broken(change))


@pytest.mark.parametrize(
    "data",
    [b"", b"null", b"[]", b"1", b'"x"', b"\xff", b"[" * 200_000, b"NaN", b'{"schema":NaN}',
     GOLDEN.read_bytes() + b"\n", GOLDEN.read_bytes().replace(b'"schema":1', b'"schema": 1'),
     GOLDEN.read_bytes().replace(b'"schema":1', b'"schema":1,"schema":1'),
     GOLDEN.read_bytes().replace(b"enc.w", b"\\u0065nc.w"),
     GOLDEN.read_bytes().replace(b"enc.w", b"\\ud800"),
     GOLDEN.read_bytes().decode().encode("utf-16")],
)  # fmt: skip
def test_what_is_not_canonical_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidManifest):
        parse_manifest(data)


@settings(max_examples=300, deadline=None)
@given(some.data())
def test_mutated_manifests_are_refused_or_the_same(drawn: some.DataObject) -> None:
    good = GOLDEN.read_bytes()
    data = bytearray(good)
    place = drawn.draw(some.integers(0, len(data) - 1))
    data[place : place + drawn.draw(some.integers(0, 4))] = drawn.draw(some.binary(max_size=4))
    try:
        manifest = parse_manifest(bytes(data))
    except InvalidManifest:
        return
    assert manifest.to_bytes() == bytes(data)


@given(
    some.recursive(
        some.none() | some.booleans() | some.integers() | some.floats() | some.text(),
        lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner),
    )
)
def test_any_json_is_refused(value: Any) -> None:
    with pytest.raises(InvalidManifest):
        parse_manifest(json.dumps({"schema": 1, "files": [value]}).encode())


def test_the_size_is_of_all_files() -> None:
    manifest = samples()
    assert manifest.size == sum(file.size for file in manifest.files)
    assert Tensor("a", "F32", (), 3, 7).range == ByteRange(3, 7)
