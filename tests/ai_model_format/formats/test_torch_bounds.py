"""torch zip: a short file cannot make its reader hold much."""

import io
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from ai_model_format.formats.interface import Index, InvalidWeightFile, NotIndexable
from ai_model_format.formats.pickle_reader import MAX_PICKLE_SIZE
from ai_model_format.formats.torch_zip import TorchZip

MIB = 1024 * 1024
FORMAT = TorchZip()


def save(value: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    torch.save(value, out, **options)
    return out.getvalue()


def index_of(data: bytes) -> Index:
    return FORMAT.index(lambda start, end: data[start:end], len(data))


def test_a_pickle_beyond_the_limit_is_never_read(tmp_path: Path) -> None:
    path = tmp_path / "large.pt"
    with (
        zipfile.ZipFile(path, "w") as archive,
        archive.open("archive/data.pkl", "w", force_zip64=True) as pickle,
    ):
        for _ in range(MAX_PICKLE_SIZE // MIB + 1):
            pickle.write(bytes(MIB))
    largest = 0
    with path.open("rb") as file:

        def read(start: int, end: int) -> bytes:
            nonlocal largest
            largest = max(largest, end - start)
            file.seek(start)
            return file.read(end - start)

        with pytest.raises(NotIndexable, match="bytes of pickle are over"):
            FORMAT.index(read, path.stat().st_size)
    assert largest < MIB


def peak_of(data: bytes, error: type[Exception], reason: str) -> int:
    """Index a file that is refused; return the bytes that this held at most."""
    tracemalloc.start()
    try:
        with pytest.raises(error, match=reason):
            index_of(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_long_key_above_many_tensors_is_not_joined_to_each() -> None:
    tensor = torch.zeros(1)
    data = save({"k" * MIB: [tensor, *[torch.zeros(1) for _ in range(63)]]})
    assert peak_of(data, InvalidWeightFile, "longer than 4096 bytes") < 16 * MIB


def test_a_key_of_many_bytes_is_not_written_out_for_each_use() -> None:
    data = save({b"\xff" * MIB: torch.zeros(1), "b": torch.ones(1)}, pickle_protocol=4)
    names = [tensor.name for tensor in index_of(data).tensors]
    assert sorted(map(len, names)) == [1, 100]
    tracemalloc.start()
    index_of(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * MIB


def test_a_long_key_without_tensors_is_no_name() -> None:
    assert [t.name for t in index_of(save({"k" * 5000: 1, "w": torch.ones(1)})).tensors] == ["w"]
