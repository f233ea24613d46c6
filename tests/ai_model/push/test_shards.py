"""An index of shards that does not fit them is refused before anything is sent."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from ai_model.errors import PathRefused
from ai_model.push.index import build_manifest
from ai_model.push.scan import scan
from ai_model.push.shards import check_sharded_models

ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "unet"
    root.mkdir()
    save_file({"enc.w": np.ones(3), "enc.b": np.ones(1)}, root / ONE)
    save_file({"dec.w": np.ones(2)}, root / TWO)
    write_index(root, {"enc.w": ONE, "enc.b": ONE, "dec.w": TWO})
    return tmp_path


def write_index(root: Path, weight_map: dict[str, str]) -> None:
    (root / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def check(folder: Path) -> None:
    files = scan(folder).files
    check_sharded_models(files, build_manifest(files, on_progress=None))


def test_a_whole_model_passes(folder: Path) -> None:
    check(folder)


@pytest.mark.parametrize(
    ("weight_map", "reason"),
    [
        ({"enc.w": ONE, "dec.w": TWO}, "enc.b"),
        ({"enc.w": ONE, "enc.b": TWO, "dec.w": TWO}, "enc.b"),
        ({"enc.w": ONE, "enc.b": ONE, "dec.w": TWO, "x": TWO}, "'x'"),
        ({"enc.w": "../secret", "enc.b": ONE, "dec.w": TWO}, "plain file name"),
        ({"enc.w": ONE, "enc.b": ONE, "dec.w": "gone.safetensors"}, "no shard 'gone"),
    ],
)
def test_an_index_that_lies_is_refused(folder: Path, weight_map: dict, reason: str) -> None:
    write_index(folder / "unet", weight_map)
    with pytest.raises(PathRefused, match=reason):
        check(folder)


def test_shards_kept_whole_are_not_looked_into(folder: Path) -> None:
    (folder / "unet" / TWO).write_bytes(b"some other format")
    check(folder)
