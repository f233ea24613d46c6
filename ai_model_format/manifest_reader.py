"""Manifests from their JSON. Nothing is passed over: an unknown field is an error. Pure."""

import json
from collections.abc import Collection, Mapping
from typing import Any

from ai_model_format.byte_range import ByteRange
from ai_model_format.manifest import (
    MAX_FILE_SIZE,
    SCHEMA,
    Chunk,
    File,
    InvalidManifest,
    Manifest,
    Tensor,
    canonical_json,
)
from ai_model_format.manifest_rules import check_manifest

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
