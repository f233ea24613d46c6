"""The manifest: the canonical list of a version's files, tensors and chunks.

Its bytes are canonical JSON and its digest is the version's digest, so whoever
trusts the digest can verify any byte of the version, whole file or not. A
manifest says nothing about where bytes are stored (that is the layout) and
nothing about who made them (that is the version's metadata). Pure.
"""

import functools
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ai_model_format.byte_range import ByteRange
from ai_model_format.digest import EMPTY_DIGEST, Digest, digest_of, parse_digest
from ai_model_format.names import InvalidName, parse_path

SCHEMA = 1
MEDIA_TYPE = "application/vnd.ai-model.manifest.v1+json"
MAX_CHUNK_SIZE = 16 * 1024 * 1024
MAX_FILE_SIZE = 2**53 - 1
MAX_TENSOR_NAME_BYTES = 4096
OPAQUE = "opaque"
_FILE_KEYS = {
    "path",
    "size",
    "sha256",
    "media_type",
    "format",
    "chunks",
    "tensors",
    "structure",
}
_TENSOR_KEYS = {
    "name",
    "dtype",
    "shape",
    "start",
    "end",
    "digest",
    "key_path",
    "storage",
    "stride",
}
_PLAIN_TENSOR_FIELDS = 6


class InvalidManifest(ValueError):
    """A manifest breaks a rule; the message names the file, the tensor and the rule."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The unit of verifying and sharing.

    Attributes:
        digest: of the chunk's bytes.
        size: bytes, 1 up to ``MAX_CHUNK_SIZE``.
    """

    digest: Digest
    size: int


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named dtype, shape and byte range inside a weight file.

    Attributes:
        name: as in the file, dots between components.
        dtype: in safetensors' words (``F32``, ``BF16``, ``I64``), or the format's own for types
            that safetensors lacks (``Q4_K``).
        shape: elements per dimension; ``()`` for a scalar.
        start: first byte in the file.
        end: behind the last byte; for a strided tensor the span from its first to its last element.
        digest: of the bytes from ``start`` to ``end``; empty until the bytes were hashed.
        key_path: torch: keys from the root object to the tensor.
        storage: torch: key of the storage that holds it; tied tensors share one.
        stride: torch: elements between neighbours per dimension, only where not contiguous.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int
    digest: Digest = ""
    key_path: tuple[str | int, ...] | None = None
    storage: str | None = None
    stride: tuple[int, ...] | None = None

    @property
    def range(self) -> ByteRange:
        """The tensor's bytes in the file."""
        return ByteRange(self.start, self.end)


@dataclass(frozen=True)
class File:
    """One file of a version.

    Attributes:
        path: relative, with ``/``.
        size: bytes.
        sha256: digest of the whole file.
        media_type: as in HTTP.
        format: name of the weight format, ``opaque`` where there is none.
        chunks: tile the file exactly, in order.
        tensors: in order of their place in the file.
        structure: ranges besides the tensors that a subset of the file is made from.
    """

    path: str
    size: int
    sha256: Digest
    media_type: str
    format: str
    chunks: tuple[Chunk, ...]
    tensors: tuple[Tensor, ...] = ()
    structure: tuple[ByteRange, ...] = ()

    @functools.cached_property
    def chunk_starts(self) -> tuple[int, ...]:
        """Offset of each chunk, and the file's size behind the last: one more than chunks."""
        starts = [0]
        for chunk in self.chunks:
            starts.append(starts[-1] + chunk.size)
        return tuple(starts)

    @functools.cached_property
    def chunk_borders(self) -> dict[int, int]:
        """Index of the chunk that starts at an offset; the file's size has that behind the last."""
        return {start: index for index, start in enumerate(self.chunk_starts)}

    def chunks_in(self, wanted: ByteRange) -> range:
        """Return the indices of the chunks that tile ``wanted``.

        Raises:
            InvalidManifest: ``wanted`` does not start and end where chunks do.
        """
        if not wanted.size:
            return range(0)
        borders = self.chunk_borders
        first, last = borders.get(wanted.start), borders.get(wanted.end)
        if first is None or last is None:
            raise InvalidManifest(
                f"file {self.path!r}: no chunks tile bytes {wanted.start} to {wanted.end}"
            )
        return range(first, last)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files of a version in order, canonical bytes and their digest."""

    files: tuple[File, ...]

    def to_bytes(self) -> bytes:
        """Return the canonical JSON: keys sorted, no spaces, UTF-8, no needless escapes."""
        return canonical_json({"schema": SCHEMA, "files": [_file_to_json(f) for f in self.files]})

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(file.size for file in self.files)


def canonical_json(value: Any) -> bytes:
    """Return one byte string for one JSON value.

    Raises:
        ValueError: the value holds NaN, an infinity or a lone surrogate.
    """
    text = json.dumps(
        value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
    )
    return text.encode("utf-8")


def manifest_digest(data: bytes) -> Digest:
    """Return the digest of a manifest's bytes. Pure."""
    return digest_of(data)


def parse_manifest(data: bytes) -> Manifest:
    """Read and check a manifest.

    Raises:
        InvalidManifest: it is not canonical JSON of a manifest, or breaks a rule.
    """
    manifest, canonical = manifest_of_json(_loads(data))
    if canonical != data:
        raise InvalidManifest("manifest: not canonical JSON")
    return manifest


def manifest_of_json(value: Any) -> tuple[Manifest, bytes]:
    """Check a manifest that was read as JSON; return it and its canonical bytes.

    Nothing of ``value`` is passed over, so its own canonical JSON is that of the manifest.

    Raises:
        InvalidManifest: it is not the JSON of a manifest, or breaks a rule.
    """
    manifest = _manifest_from_json(value)
    check_manifest(manifest)
    try:
        return manifest, canonical_json(value)
    except ValueError as error:
        raise InvalidManifest(f"manifest: {error}") from error


def read_checked_manifest(data: bytes) -> Manifest:
    """Read a manifest that was checked before it was kept where only we write.

    Raises:
        InvalidManifest: it is not the JSON of a manifest.
    """
    return _manifest_from_json(_loads(data))


def _loads(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidManifest(f"manifest: not JSON: {error}") from error


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


def _file_to_json(file: File) -> dict[str, Any]:
    value: dict[str, Any] = {
        "path": file.path,
        "size": file.size,
        "sha256": file.sha256,
        "media_type": file.media_type,
        "format": file.format,
        "chunks": [[chunk.digest, chunk.size] for chunk in file.chunks],
    }
    if file.tensors:
        value["tensors"] = [_tensor_to_json(tensor) for tensor in file.tensors]
    if file.structure:
        value["structure"] = [[part.start, part.end] for part in file.structure]
    return value


def _tensor_to_json(tensor: Tensor) -> dict[str, Any]:
    value: dict[str, Any] = {
        "name": tensor.name,
        "dtype": tensor.dtype,
        "shape": list(tensor.shape),
        "start": tensor.start,
        "end": tensor.end,
        "digest": tensor.digest,
    }
    if tensor.key_path is not None:
        value["key_path"] = list(tensor.key_path)
    if tensor.storage is not None:
        value["storage"] = tensor.storage
    if tensor.stride is not None:
        value["stride"] = list(tensor.stride)
    return value


def _manifest_from_json(value: Any) -> Manifest:
    try:
        _only_keys(value, {"schema", "files"})
        if value["schema"] != SCHEMA or type(value["schema"]) is not int:
            raise InvalidManifest(
                f"manifest: schema {value['schema']!r:.50} is not {SCHEMA}, or not canonical"
            )
        return Manifest(tuple(_file_from_json(file) for file in _list(value["files"])))
    except (KeyError, TypeError, IndexError) as error:
        raise InvalidManifest(
            f"manifest: a field is missing or of the wrong type: {error}"
        ) from error
    except ValueError as error:
        raise InvalidManifest(str(error)) from error


def _file_from_json(value: Mapping[str, Any]) -> File:
    _only_keys(value, _FILE_KEYS)
    if [] in (value.get("tensors"), value.get("structure")):
        raise InvalidManifest("manifest: not canonical JSON: an empty list is left out")
    return File(
        path=_text(value["path"]),
        size=_integer(value["size"]),
        sha256=_text(value["sha256"]),
        media_type=_text(value["media_type"]),
        format=_text(value["format"]),
        chunks=tuple(Chunk(_text(d), _integer(n)) for d, n in _list(value["chunks"])),
        tensors=tuple(_tensor_from_json(tensor) for tensor in _list(value.get("tensors", []))),
        structure=tuple(
            ByteRange(_integer(a), _integer(b)) for a, b in _list(value.get("structure", []))
        ),
    )


def _tensor_from_json(value: Mapping[str, Any]) -> Tensor:
    name, dtype, digest = _text(value["name"]), _text(value["dtype"]), _text(value["digest"])
    start, end = _integer(value["start"]), _integer(value["end"])
    shape = tuple(map(_integer, _list(value["shape"])))
    if len(value) == _PLAIN_TENSOR_FIELDS:  # and all of them were there
        return Tensor(name, dtype, shape, start, end, digest)
    _only_keys(value, _TENSOR_KEYS)
    key_path, storage, stride = (value.get(key) for key in ("key_path", "storage", "stride"))
    if None in (value.get(key, "") for key in ("key_path", "storage", "stride")):
        raise InvalidManifest("manifest: not canonical JSON: null is left out")
    return Tensor(
        name,
        dtype,
        shape,
        start,
        end,
        digest,
        key_path=None if key_path is None else tuple(_key(key) for key in _list(key_path)),
        storage=None if storage is None else _text(storage),
        stride=None if stride is None else tuple(map(_integer, _list(stride))),
    )


def _only_keys(value: Any, known: Collection[str]) -> None:
    if not isinstance(value, dict):
        raise InvalidManifest(f"manifest: {value!r:.100} is of the wrong type, not an object")
    unknown = value.keys() - known
    if unknown:
        raise InvalidManifest(f"manifest: not canonical, field {min(unknown)[:100]!r} is not known")


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidManifest(f"manifest: {value!r:.100} is not a list")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise InvalidManifest(f"manifest: {value!r:.100} is not text, or holds NUL")
    return value


def _integer(value: Any) -> int:
    if type(value) is not int or abs(value) > MAX_FILE_SIZE:
        raise InvalidManifest(f"manifest: {value!r:.100} is not an integer that JSON keeps exact")
    return value


def _key(value: Any) -> str | int:
    return value if isinstance(value, int) and not isinstance(value, bool) else _text(value)
