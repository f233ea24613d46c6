"""A sharded model is whole: its index and the shards beside it name the same tensors."""

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from ai_model.errors import FileChanged, PathRefused
from ai_model.push.scan import LocalFile
from ai_model_format.formats.interface import InvalidWeightFile
from ai_model_format.formats.sharded import (
    MAX_INDEX_SIZE,
    check_shards,
    is_index_path,
    parse_shard_index,
)
from ai_model_format.manifest import OPAQUE, File, Manifest


def check_sharded_models(files: Sequence[LocalFile], manifest: Manifest) -> None:
    """Check every index of shards among the files.

    Shards that are kept whole, as of a format that is not taken apart, are not looked into.

    Raises:
        PathRefused: a tensor or a shard is missing, stands twice, or is not in the index.
        FileChanged: an index changed meanwhile.
    """
    known = {file.path: file for file in manifest.files}
    for local in files:
        if is_index_path(local.path) and local.size <= MAX_INDEX_SIZE:
            _check(local, known)


def _check(local: LocalFile, known: Mapping[str, File]) -> None:
    folder = PurePosixPath(local.path).parent
    try:
        index = parse_shard_index(_read(local))
        beside = {name: known.get(str(folder / name)) for name in index.shards}
        shards = {name: file for name, file in beside.items() if file is not None}
        if any(file.format == OPAQUE for file in shards.values()):
            return
        check_shards(index, {n: [t.name for t in file.tensors] for n, file in shards.items()})
    except InvalidWeightFile as error:
        raise PathRefused(
            Path(local.source),
            f"does not fit its shards: {error.reason}",
            way_out="Save the model anew, or leave the index out.",
        ) from error


def _read(local: LocalFile) -> bytes:
    try:
        data = Path(local.source).read_bytes()
    except OSError as error:
        raise FileChanged(Path(local.source)) from error
    if len(data) != local.size:
        raise FileChanged(Path(local.source))
    return data
