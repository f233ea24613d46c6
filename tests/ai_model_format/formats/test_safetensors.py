"""safetensors: what is read, what is refused, and that subsets load with the library."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy as st
from hypothesis import given, settings
from hypothesis import strategies as some

from ai_model_format.byte_range import ByteRange
from ai_model_format.chunks import plan_chunks
from ai_model_format.formats.detect import detect, index_file
from ai_model_format.formats.interface import InvalidWeightFile, NotIndexable
from ai_model_format.formats.safetensors import MAX_HEADER_SIZE, Safetensors
from tests.ai_model_format.formats.reading import assemble, reader, within

FORMAT = Safetensors()


def pack(header: object, body: bytes = b"", *, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + body


def entry(dtype: str, shape: list[int], start: int, end: int) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def subset(data: bytes, chosen: list[str]) -> bytes:
    index = FORMAT.index(reader(data), len(data))
    read = within(data, index.structure)
    segments = FORMAT.subset(read, len(data), index.tensors, chosen)
    return assemble(data, segments, index)


@pytest.fixture
def sample() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    return {
        "encoder.weight": rng.random((4, 6), dtype=np.float32),
        "encoder.bias": np.arange(6, dtype=np.int64),
        "decoder.flag": np.array([True, False, True]),
        "decoder.scalar": np.array(3.5),
        "decoder.empty": np.zeros((0, 5), dtype=np.float16),
    }


def test_tensors_come_in_file_order_with_their_bytes(sample: dict[str, np.ndarray]) -> None:
    data = st.save(sample, metadata={"format": "np"})
    index = FORMAT.index(reader(data), len(data))
    assert [t.start for t in index.tensors] == sorted(t.start for t in index.tensors)
    found = {t.name: data[t.start : t.end] for t in index.tensors}
    assert found == {name: array.tobytes() for name, array in sample.items()}
    assert {t.name: t.shape for t in index.tensors} == {n: a.shape for n, a in sample.items()}
    assert index.structure == [ByteRange(0, min(t.start for t in index.tensors))]


def test_a_subset_loads_with_equal_tensors_and_metadata(
    sample: dict[str, np.ndarray], tmp_path: Path
) -> None:
    chosen = ["decoder.flag", "encoder.weight", "decoder.empty"]
    data = subset(st.save(sample, metadata={"format": "np", "é": "✓"}), chosen)
    loaded = st.load(data)
    assert sorted(loaded) == sorted(chosen)
    for name in chosen:
        assert loaded[name].dtype == sample[name].dtype
        np.testing.assert_array_equal(loaded[name], sample[name])
    (tmp_path / "subset.safetensors").write_bytes(data)
    from safetensors import safe_open

    with safe_open(tmp_path / "subset.safetensors", "np") as opened:
        assert opened.metadata() == {"format": "np", "é": "✓"}


def test_all_tensors_are_the_file_itself(sample: dict[str, np.ndarray]) -> None:
    data = st.save(sample)
    assert subset(data, list(sample)) == data


def test_no_tensors_are_a_file_without_tensors(sample: dict[str, np.ndarray]) -> None:
    assert st.load(subset(st.save(sample), [])) == {}


def test_an_unknown_tensor_is_named(sample: dict[str, np.ndarray]) -> None:
    with pytest.raises(InvalidWeightFile, match=r"no tensor 'encoder\.wait'"):
        subset(st.save(sample), ["encoder.wait"])


@pytest.mark.parametrize("bad", [b" NaN}", b"Infinity}", b"-Infinity}"])
def test_numbers_that_json_lacks_are_refused(bad: bytes) -> None:
    refuse(pack(b'{"__metadata__":' + bad), "not JSON")


def refuse(data: bytes, reason: str) -> None:
    with pytest.raises(InvalidWeightFile, match=reason):
        FORMAT.index(reader(data), len(data))


F32 = entry("F32", [1], 0, 4)
HOSTILE: dict[str, tuple[bytes, str]] = {
    "no room for a length": (b"\x10\0\0", "cannot hold a header length"),
    "header past the end": (pack({}, length=900), "ends behind the file"),
    "header length overflow": (pack({}, length=2**64 - 1), "is over 100000000"),
    "not an object": (pack(b"[]"), "start with '{'"),
    "leading space": (pack(b" {}"), "start with '{'"),
    "NUL padding": (pack(b"{}\0\0"), "not JSON"),
    "not UTF-8": (pack(b'{"\xff":1}'), "not JSON"),
    "UTF-16": (pack("{}".encode("utf-16-le")), "not JSON"),
    "cut JSON": (pack(b'{"a":'), "not JSON"),
    "depth bomb": (pack(b'{"a":' + b"[" * 200_000), "nested too deep"),
    "object depth bomb": (pack(b'{"a":' * 200_000), "nested too deep"),
    "a number of a million digits": (pack(b'{"a":' + b"9" * 1_000_000 + b"}"), "not JSON"),
    "the same name twice": (
        pack(b'{"a":%b,"a":%b}' % ((json.dumps(F32).encode(),) * 2), bytes(4)),
        "names 'a' twice",
    ),
    "the same field twice": (
        pack(b'{"a":{"dtype":"F32","dtype":"U8","shape":[1],"data_offsets":[0,4]}}', bytes(4)),
        "names 'dtype' twice",
    ),
    "lone surrogate": (pack(b'{"\\ud800":%b}' % json.dumps(F32).encode(), bytes(4)), "Unicode"),
    "surrogate in metadata": (pack(b'{"__metadata__":{"a":"\\udfff"}}'), "Unicode"),
    "NUL in a name": (pack({"a\0b": F32}, bytes(4)), "holds NUL"),
    "a very long name": (pack({"a" * 5000: F32}, bytes(4)), "longer than 4096"),
    "metadata of numbers": (pack({"__metadata__": {"epoch": 1}}), "'epoch' is not text"),
    "metadata list": (pack({"__metadata__": []}), "not an object"),
    "entry is a number": (pack({"a": 1}), "tensor 'a'"),
    "entry is null": (pack({"a": None}), "tensor 'a'"),
    "no dtype": (pack({"a": {"shape": [], "data_offsets": [0, 4]}}), "'a': it has no 'dtype'"),
    "unknown dtype": (pack({"a": entry("F31", [1], 0, 4)}, bytes(4)), "'F31' is not known"),
    "fraction in the shape": (
        pack({"a": {"dtype": "F32", "shape": [1.0], "data_offsets": [0, 4]}}, bytes(4)),
        "not whole numbers",
    ),
    "true in the shape": (
        pack({"a": {"dtype": "U8", "shape": [True], "data_offsets": [0, 1]}}, bytes(1)),
        "not whole numbers",
    ),
    "three offsets": (
        pack({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1, 1]}}, bytes(1)),
        "tensor 'a'",
    ),
    "negative shape": (pack({"a": entry("U8", [-1], 0, 1)}, bytes(1)), "extent is negative"),
    "shape overflow": (pack({"a": entry("U8", [2**32, 2**32, 0], 0, 0)}), "overflows"),
    "huge extent": (pack({"a": entry("U8", [10**400], 0, 0)}), "tensor 'a'"),
    "shape and bytes differ": (pack({"a": entry("F32", [2], 0, 4)}, bytes(4)), "does not take 4"),
    "half a byte": (pack({"a": entry("F4", [3], 0, 1)}, bytes(1)), "inside a byte"),
    "backwards": (pack({"a": entry("U8", [1], 4, 3)}, bytes(4)), "from 4 to 3"),
    "negative offset": (pack({"a": entry("U8", [1], -1, 0)}, bytes(4)), "from -1 to 0"),
    "overlap": (pack({"a": F32, "b": entry("U8", [2], 3, 5)}, bytes(5)), "'b'.*overlaps"),
    "shared bytes": (pack({"a": F32, "b": F32}, bytes(4)), "'b'.*overlaps"),
    "hole": (pack({"a": F32, "b": entry("U8", [1], 5, 6)}, bytes(6)), "'b'.*follows a hole"),
    "trailing bytes": (pack({"a": F32}, bytes(9)), "5 bytes at offset .* belong to no tensor"),
    "truncated": (pack({"a": F32}, bytes(3)), "'a' ends at"),
}


@pytest.mark.parametrize(("data", "reason"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_files_are_refused_with_the_reason(data: bytes, reason: str) -> None:
    refuse(data, reason)


def test_a_header_of_millions_of_parts_is_not_parsed() -> None:
    data = pack(b'{"a":[' + b"[]," * 5_000_000 + b"[]]}")
    with pytest.raises(NotIndexable, match="more than"):
        FORMAT.index(reader(data), len(data))


@pytest.mark.parametrize(
    ("dtype", "shape", "size"),
    [("F4", [2, 8], 8), ("F6_E2M3", [4], 3), ("F8_E4M3", [3], 3), ("F8_E8M0", [2], 2),
     ("BF16", [3], 6), ("C64", [2], 16), ("U64", [], 8), ("BOOL", [0, 9], 0)],
)  # fmt: skip
def test_every_kind_of_type_is_counted_in_bits(dtype: str, shape: list[int], size: int) -> None:
    data = pack(
        {"a": entry(dtype, shape, 0, size), "b": entry("U8", [1], size, size + 1)}, bytes(size + 1)
    )
    index = FORMAT.index(reader(data), len(data))
    assert {t.name: t.end - t.start for t in index.tensors} == {"a": size, "b": 1}
    assert subset(data, ["b"])[-1:] == data[-1:]


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "a b", "é✓", "__metadata", "a..b"])
def test_names_are_data(name: str) -> None:
    data = pack({name: F32, "z": entry("U8", [1], 4, 5)}, bytes(5))
    assert [t.name for t in FORMAT.index(reader(data), len(data)).tensors] == [name, "z"]
    assert list(st.load(subset(data, [name]))) == [name]


def test_trailing_spaces_and_an_empty_metadata_are_legal() -> None:
    data = pack(b'{"__metadata__":{},"a":%b}   ' % json.dumps(F32).encode(), bytes(4))
    assert [t.name for t in FORMAT.index(reader(data), len(data)).tensors] == ["a"]


def test_ninety_thousand_tensors() -> None:
    header = {f"layers.{i}.weight": entry("U8", [1], i, i + 1) for i in range(90_000)}
    data = pack(header, bytes(i % 251 for i in range(90_000)))
    loaded = st.load(subset(data, [f"layers.{i}.weight" for i in range(0, 90_000, 3)]))
    assert len(loaded) == 30_000
    assert loaded["layers.30000.weight"][0] == 30_000 % 251


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"PK\x03\x04", b'const a={"x":1}', struct.pack("<Q", MAX_HEADER_SIZE + 1) + b"{}"],
)
def test_what_only_looks_alike_is_not_claimed(data: bytes) -> None:
    assert detect(data[:4096], len(data)).name == "opaque"


def test_a_truncated_file_is_still_claimed(sample: dict[str, np.ndarray]) -> None:
    data = st.save(sample)[:-1]
    with pytest.raises(InvalidWeightFile, match="the file at"):
        index_file(reader(data), len(data))


@settings(max_examples=300, deadline=None)
@given(some.data())
def test_mutations_never_raise_anything_else(drawn: some.DataObject) -> None:
    data = bytearray(st.save({"a.b": np.arange(5.0), "a.c": np.ones(3, np.int8)}, {"k": "v"}))
    for _ in range(drawn.draw(some.integers(1, 4))):
        place = drawn.draw(some.integers(0, len(data) - 1))
        data[place : place + drawn.draw(some.integers(0, 3))] = drawn.draw(some.binary(max_size=3))
    mutated = bytes(data)
    try:
        index = FORMAT.index(reader(mutated), len(mutated))
    except (InvalidWeightFile, NotIndexable):
        return
    chunks = plan_chunks(len(mutated), [t.range for t in index.tensors])
    assert sum(chunk.size for chunk in chunks) == len(mutated)
    for tensor in index.tensors:
        subset(mutated, [tensor.name])


@pytest.mark.parametrize(("layer", "count"), [("encoder.", 96), ("pooler.", 2), ("embeddings.", 6)])
def test_a_layer_of_minilm(real_file: Callable[[str], Path], layer: str, count: int) -> None:
    data = real_file("minilm").read_bytes()
    index = FORMAT.index(reader(data), len(data))
    chosen = [t.name for t in index.tensors if t.name.startswith(layer)]
    assert (len(index.tensors), len(chosen)) == (104, count)
    whole, part = st.load(data), st.load(subset(data, chosen))
    assert sorted(part) == sorted(chosen)
    for name in chosen:
        np.testing.assert_array_equal(part[name], whole[name])
