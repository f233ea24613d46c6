"""Sharded models: an ``*.index.json`` that says which file holds which tensor.

``model.safetensors.index.json`` and ``pytorch_model.bin.index.json`` have a
``weight_map`` from tensor names to files beside the index, and ``metadata`` with
``total_size``. A file name from an index is data: only plain names are taken,
because ``../`` in a weight map has been used to write elsewhere. Pure.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from ai_model_format.formats.dtypes import count_elements
from ai_model_format.formats.interface import InvalidWeightFile, check_tensor_name
from ai_model_format.formats.strict_json import InvalidJson, TooManyParts, parse_object
from ai_model_format.manifest import Tensor
from ai_model_format.names import InvalidName, parse_path

NAME = "sharded index"
MAX_INDEX_SIZE = 64 * 1024 * 1024
_SUFFIXES = (".safetensors.index.json", ".bin.index.json")


@dataclass(frozen=True, slots=True)
class ShardIndex:
    """The index of a sharded model.

    Attributes:
        weight_map: the shard's file name by the tensor's name.
        metadata: what else the index says, such as ``total_size`` in bytes.
        rest: members of the index besides these two.
    """

    weight_map: Mapping[str, str]
    metadata: Mapping[str, Any]
    rest: Mapping[str, Any]

    @property
    def shards(self) -> list[str]:
        """File names of the shards, in order of first use."""
        return list(dict.fromkeys(self.weight_map.values()))


def is_index_path(path: str) -> bool:
    """Say whether a file is by its name the index of shards beside it."""
    return path.endswith(_SUFFIXES)


def parse_shard_index(data: bytes) -> ShardIndex:
    """Read an index.

    Raises:
        InvalidWeightFile: it is not JSON, names a tensor twice, or names a shard that is
            not a plain file name.
    """
    if len(data) > MAX_INDEX_SIZE:
        _invalid(f"{len(data)} bytes are over {MAX_INDEX_SIZE}")
    try:
        value = parse_object(data)
    except (InvalidJson, TooManyParts) as error:
        _invalid(str(error))
    weight_map, metadata = value.get("weight_map"), value.get("metadata", {})
    if not isinstance(weight_map, dict) or not isinstance(metadata, dict):
        _invalid("it has no weight_map, or its metadata is not an object")
    for name, shard in weight_map.items():
        check_tensor_name(NAME, name)
        _check_shard_name(name, shard)
    rest = {key: member for key, member in value.items() if key not in ("weight_map", "metadata")}
    return ShardIndex(weight_map, metadata, rest)


def check_shards(index: ShardIndex, shards: Mapping[str, Iterable[str]]) -> None:
    """Check that the shards hold just the tensors that the index says, each once.

    Args:
        index: of the model.
        shards: names of the tensors that stand in each shard, by its file name.

    Raises:
        InvalidWeightFile: naming the tensor or the shard.
    """
    for shard in index.shards:
        if shard not in shards:
            _invalid(f"there is no shard {shard[:200]!r}")
    found: dict[str, str] = {}
    for shard, names in shards.items():
        for name in names:
            if name in found:
                _invalid(f"tensor {name[:200]!r} is in {found[name]!r} and in {shard!r}")
            found[name] = shard
    for name in index.weight_map.keys() | found.keys():
        if index.weight_map.get(name) != found.get(name):
            _invalid(
                f"tensor {name[:200]!r} is in {found.get(name)!r},"
                f" the index says {index.weight_map.get(name)!r}"
            )


def filter_index(
    index: ShardIndex, shards: Mapping[str, Sequence[Tensor]], chosen: Collection[str]
) -> bytes:
    """Return the JSON of an index with just the ``chosen`` tensors.

    ``total_size`` and ``total_parameters`` are counted anew where the index has them;
    tensors that share their bytes count once. Other metadata is kept.

    Args:
        index: of the whole model.
        shards: tensors of each shard that has chosen ones, by its file name.
        chosen: names of tensors.

    Raises:
        InvalidWeightFile: the index or the shards have no such tensor.
    """
    wanted = frozenset(chosen)
    kept = {name: shard for name, shard in index.weight_map.items() if name in wanted}
    tensors = {
        _place(shard, tensor): tensor
        for shard, members in shards.items()
        for tensor in members
        if kept.get(tensor.name) == shard
    }
    present = {tensor.name for members in shards.values() for tensor in members}
    missing = wanted - (kept.keys() & present)
    if missing:
        _invalid(f"there is no tensor {min(missing)[:200]!r}")
    totals = {
        "total_size": sum(tensor.end - tensor.start for tensor in tensors.values()),
        "total_parameters": sum(count_elements(tensor.shape) for tensor in tensors.values()),
    }
    metadata = {key: totals.get(key, value) for key, value in index.metadata.items()}
    whole = {"metadata": metadata, **index.rest, "weight_map": kept}
    return (json.dumps(whole, indent=2, ensure_ascii=False) + "\n").encode("utf-8")


def _place(shard: str, tensor: Tensor) -> tuple[str | int, ...]:
    """Return what tied tensors have in common: their bytes, where the format knows storages."""
    if tensor.storage is None:
        return shard, tensor.name
    return shard, tensor.storage, tensor.start, tensor.end


def _invalid(reason: str) -> NoReturn:
    raise InvalidWeightFile(NAME, reason)


def _check_shard_name(tensor: str, shard: Any) -> None:
    try:
        plain = isinstance(shard, str) and "/" not in parse_path(shard)
    except InvalidName:
        plain = False
    if not plain:
        _invalid(f"tensor {tensor[:200]!r}: shard {shard!r:.200} is not a plain file name")
