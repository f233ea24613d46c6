"""The manifest: the canonical list of a version's files, tensors and chunks.

Its bytes are canonical JSON and its digest is the version's digest, so whoever
trusts the digest can verify any byte of the version, whole file or not. A
manifest says nothing about where bytes are stored (that is the layout) and
nothing about who made them (that is the version's metadata). Pure.
"""

import functools
import json
from dataclasses import dataclass
from typing import Any

from ai_model_format.byte_range import ByteRange
from ai_model_format.digest import Digest, digest_of

SCHEMA = 1
MEDIA_TYPE = "application/vnd.ai-model.manifest.v1+json"
MAX_CHUNK_SIZE = 16 * 1024 * 1024
MAX_FILE_SIZE = 2**53 - 1
MAX_TENSOR_NAME_BYTES = 4096
OPAQUE = "opaque"


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
