"""The rules that every manifest keeps, whoever made it. Pure."""

from collections.abc import Sequence
from itertools import pairwise

from ai_model_format.digest import EMPTY_DIGEST, parse_digest
from ai_model_format.manifest import (
    MAX_CHUNK_SIZE,
    MAX_FILE_SIZE,
    MAX_TENSOR_NAME_BYTES,
    OPAQUE,
    File,
    InvalidManifest,
    Manifest,
    Tensor,
)
from ai_model_format.names import InvalidName, parse_path


def check_manifest(manifest: Manifest) -> None:
    """Check every rule that a manifest keeps.

    Raises:
        InvalidManifest: names the file, the tensor and the rule.
    """
    if not manifest.files:
        raise InvalidManifest("manifest: a version has at least one file")
    paths = [file.path for file in manifest.files]
    if paths != sorted(set(paths)):
        raise InvalidManifest("manifest: files are sorted by path, each path once")
    _check_no_file_is_a_folder(paths)
    for file in manifest.files:
        try:
            _check_file(file)
        except ValueError as error:
            raise InvalidManifest(f"file {file.path[:200]!r}: {error}") from error


def _check_no_file_is_a_folder(paths: Sequence[str]) -> None:
    known = set(paths)
    for path in paths:
        parts = path.split("/")
        for depth in range(1, len(parts)):
            if "/".join(parts[:depth]) in known:
                raise InvalidManifest(f"manifest: {path!r} lies below a file")


def _check_file(file: File) -> None:
    parse_path(file.path)
    parse_digest(file.sha256)
    if not 0 <= file.size <= MAX_FILE_SIZE:
        raise ValueError(f"size {file.size} is out of bounds")
    for chunk in file.chunks:
        parse_digest(chunk.digest)
        if not 1 <= chunk.size <= MAX_CHUNK_SIZE:
            raise ValueError(f"chunk size {chunk.size} is not between 1 and {MAX_CHUNK_SIZE}")
    if file.chunk_starts[-1] != file.size:
        raise ValueError(f"chunks cover {file.chunk_starts[-1]} of {file.size} bytes")
    if len(file.chunks) == 1 and file.chunks[0].digest != file.sha256:
        raise ValueError("the only chunk has another digest than the file")
    if not file.size and file.sha256 != EMPTY_DIGEST:
        raise ValueError("an empty file has the digest of nothing")
    for before, after in pairwise(file.structure):
        if before.end > after.start:
            raise ValueError("structure ranges overlap or are not in order")
    for part in file.structure:
        file.chunks_in(part)
    _check_tensors(file)


def _check_tensors(file: File) -> None:
    if file.format == OPAQUE and (file.tensors or file.structure):
        raise ValueError("an opaque file has no tensors")
    names = {tensor.name for tensor in file.tensors}
    if len(names) != len(file.tensors):
        raise ValueError("two tensors share a name")
    for tensor in file.tensors:
        if _is_plain(file, tensor):
            continue
        try:
            _check_tensor(file, tensor)
        except (InvalidManifest, InvalidName) as error:
            raise ValueError(f"tensor {tensor.name[:200]!r}: {error}") from error


def _is_plain(file: File, tensor: Tensor) -> bool:
    """Say whether a tensor is exactly one chunk and keeps all rules, as most do."""
    index = file.chunk_borders.get(tensor.start, -1)
    return (
        0 <= index < len(file.chunks)
        and file.chunk_borders.get(tensor.end) == index + 1
        and tensor.digest == file.chunks[index].digest
        and len(tensor.name) <= MAX_TENSOR_NAME_BYTES // 4
        and not (tensor.shape and min(tensor.shape) < 0)
    )


def _check_tensor(file: File, tensor: Tensor) -> None:
    if len(tensor.name.encode("utf-8", "surrogatepass")) > MAX_TENSOR_NAME_BYTES:
        raise InvalidManifest(f"its name is longer than {MAX_TENSOR_NAME_BYTES} bytes")
    if any(extent < 0 for extent in tensor.shape):
        raise InvalidManifest("its shape is negative")
    parse_digest(tensor.digest)
    if not 0 <= tensor.start <= tensor.end <= file.size:
        raise InvalidManifest("its bytes lie outside the file")
    covering = file.chunks_in(tensor.range)
    if not covering and tensor.digest != EMPTY_DIGEST:
        raise InvalidManifest("it is empty and has another digest than nothing")
    if len(covering) == 1 and file.chunks[covering[0]].digest != tensor.digest:
        raise InvalidManifest("its only chunk has another digest")
