"""A model to move."""

from pathlib import Path

import numpy
import pytest
from safetensors.numpy import save_file


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model of 1 MiB in 8 tensors."""
    random = numpy.random.default_rng(1)
    path = tmp_path / "model" / "model.safetensors"
    path.parent.mkdir()
    names = [f"{part}.{n}.weight" for part in ("encoder", "decoder") for n in range(4)]
    save_file({name: random.random(16_384).astype("f8") for name in names}, path)
    return path
