"""What differs between two versions, from their manifests alone. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

from ai_model_format.manifest import File, Manifest, Tensor

Status = Literal["added", "removed", "changed"]
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that is not the same in both; ``size`` is that in the newer, 0 where removed."""

    path: str
    status: Status
    size: int


@dataclass(frozen=True, slots=True)
class TensorChange:
    """A tensor whose bytes, dtype or shape differ; ``size`` as for files."""

    file: str
    name: str
    status: Status
    size: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """From an older version to a newer one.

    Attributes:
        files: that differ, by path.
        tensors: that differ, in these files.
        bytes_new: of the newer version's chunks that the older one lacks.
    """

    files: tuple[FileChange, ...]
    tensors: tuple[TensorChange, ...]
    bytes_new: int


def compare(older: Manifest, newer: Manifest) -> Comparison:
    """Return what differs."""
    before = {file.path: file for file in older.files}
    after = {file.path: file for file in newer.files}
    return Comparison(
        tuple(
            FileChange(path, status, after[path].size if path in after else 0)
            for path, status in _changes(_digests(before), _digests(after))
        ),
        tuple(
            change
            for path in sorted(before.keys() | after.keys())
            for change in _tensor_changes(path, before.get(path), after.get(path))
        ),
        _bytes_new(older, newer),
    )


def _digests(files: Mapping[str, File]) -> dict[str, str]:
    return {path: file.sha256 for path, file in files.items()}


def _tensor_changes(path: str, before: File | None, after: File | None) -> Iterator[TensorChange]:
    old, new = _tensors(before), _tensors(after)
    for name, status in _changes(_contents(old), _contents(new)):
        size = new[name].range.size if name in new else 0
        yield TensorChange(path, name, status, size)


def _tensors(file: File | None) -> dict[str, Tensor]:
    return {tensor.name: tensor for tensor in file.tensors} if file else {}


def _contents(tensors: Mapping[str, Tensor]) -> dict[str, tuple[str, str, tuple[int, ...]]]:
    return {name: (t.digest, t.dtype, t.shape) for name, t in tensors.items()}


def _changes(
    before: Mapping[str, _Value], after: Mapping[str, _Value]
) -> Iterator[tuple[str, Status]]:
    for name in sorted(before.keys() | after.keys()):
        if name not in before:
            yield name, "added"
        elif name not in after:
            yield name, "removed"
        elif before[name] != after[name]:
            yield name, "changed"


def _bytes_new(older: Manifest, newer: Manifest) -> int:
    held = {chunk.digest for file in older.files for chunk in file.chunks}
    lacking = {c.digest: c.size for f in newer.files for c in f.chunks if c.digest not in held}
    return sum(lacking.values())
