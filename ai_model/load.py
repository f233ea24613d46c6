"""Tensors by name, straight from verified files. Nothing is ever unpickled.

The files are brought into the cache directory by an ordinary get; their structure
is read by the formats' own readers, and arrays are made from the raw bytes.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from ai_model.arrays import MakeArray, numpy_maker, torch_maker
from ai_model.cache import mark_used
from ai_model.errors import UsageError
from ai_model.get.run import get
from ai_model.get.select import Selection, wanted_names
from ai_model.get.targets import FileTarget
from ai_model.progress import OnProgress
from ai_model.version import Version
from ai_model_format.digest import hex_of
from ai_model_format.formats.detect import index_file
from ai_model_format.manifest import canonical_json

Framework = Literal["numpy", "torch"]


def load(
    version: Version,
    selection: Selection,
    *,
    framework: Framework,
    on_progress: OnProgress | None,
) -> dict[str, Any]:
    """Return the selected tensors by name.

    Raises:
        NotSupported: the framework is missing, or cannot hold a dtype.
        UsageError: two files hold a tensor of the same name.
    """
    make = torch_maker() if framework == "torch" else numpy_maker()
    names = [tensor.name for file in version.files for tensor in file.tensors]
    wanted = wanted_names(names, selection, version.resolved.groups)
    result = get(version, selection, _directory(version, selection), on_progress=on_progress)
    mark_used(result.output)
    arrays: dict[str, Any] = {}
    for file in result.files:
        for name, array in _arrays(result.output / file.path, make):
            if name in arrays:
                raise UsageError(
                    f"Two files hold a tensor {name!r}.", way_out="Choose one with files=..."
                )
            if wanted is None or name in wanted:  # a tie may have come along
                arrays[name] = array
    return arrays


def _arrays(path: Path, make: MakeArray) -> Iterator[tuple[str, Any]]:
    file = FileTarget(path, writable=False)
    try:

        def read(start: int, end: int) -> bytes:
            return bytes(_read(file, start, end))

        _, index = index_file(read, path.stat().st_size)
        for tensor in index.tensors:
            yield tensor.name, make(tensor, _read(file, tensor.start, tensor.end))
    finally:
        file.close()


def _read(file: FileTarget, start: int, end: int) -> bytearray:
    data = bytearray(end - start)
    if not file.read_into(start, memoryview(data)):
        raise EOFError(f"{file.path} was cut short while it was read")
    return data


def _directory(version: Version, selection: Selection) -> Path:
    """Return where the files are kept: one place for each content and selection."""
    asked = canonical_json([selection.to_json(), version.resolved.groups])
    key = hashlib.sha256(asked).hexdigest()[:16]
    return version.cache.loaded_dir / hex_of(version.digest)[:32] / key
