"""Which files and tensors a get takes. Pure.

Weight files give the tensors that the patterns select and are left out where none
is; every other file comes along whole. The index of a sharded model is rewritten
to name only what was taken.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ai_model.errors import NoMatch, UsageError, as_sentence
from ai_model_format.formats.sharded import is_index_path
from ai_model_format.layers import InvalidPattern, NoLayerMatches, select_tensors
from ai_model_format.manifest import File, Manifest

_NO_TENSORS = "These files hold no tensors that can be told apart; get them whole."


@dataclass(frozen=True, slots=True)
class Selection:
    """What a person asked for.

    Attributes:
        layers: patterns of tensors to take; none takes all.
        exclude: patterns of tensors to leave out again.
        files: globs over paths; none takes all.
        weights_only: leave out files without tensors, but for the index of shards.
    """

    layers: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    weights_only: bool = False

    def to_json(self) -> dict[str, list[str] | bool]:
        """Return it as a receipt holds it."""
        return {
            "layers": list(self.layers),
            "exclude": list(self.exclude),
            "files": list(self.files),
            "weights_only": self.weights_only,
        }


@dataclass(frozen=True, slots=True)
class Chosen:
    """A file to write.

    Attributes:
        file: of the manifest.
        tensors: names to take; ``None`` takes the whole file.
        shards: of an index of shards: what was taken of each; ``None`` where the file is
            copied as it is.
    """

    file: File
    tensors: frozenset[str] | None = None
    shards: "tuple[Chosen, ...] | None" = None

    @property
    def is_whole(self) -> bool:
        """The output is the file, byte by byte."""
        return self.tensors is None and self.shards is None

    @property
    def names(self) -> frozenset[str]:
        """Names of the tensors that are taken."""
        if self.tensors is not None:
            return self.tensors
        return frozenset(tensor.name for tensor in self.file.tensors)


def make_selection(
    *,
    layers: str | Sequence[str],
    exclude: str | Sequence[str],
    files: str | Sequence[str],
    weights_only: bool,
) -> Selection:
    """Take one pattern or several of each kind."""
    return Selection(_several(layers), _several(exclude), _several(files), weights_only)


def select(
    manifest: Manifest, selection: Selection, groups: Mapping[str, Sequence[str]]
) -> list[Chosen]:
    """Return what to write, in the manifest's order.

    Raises:
        NoMatch: a pattern or glob matches nothing, or all together leave nothing.
        UsageError: a pattern cannot be read.
    """
    files = _matching_files(manifest.files, selection.files)
    names = list(dict.fromkeys(tensor.name for file in files for tensor in file.tensors))
    wanted = wanted_names(names, selection, groups)
    weights = {file.path: _chosen_weights(file, wanted) for file in files if file.tensors}
    chosen = []
    for file in files:
        if file.tensors:
            if (taken := weights[file.path]) is not None:
                chosen.append(taken)
        elif _is_shard_index(file, files):
            chosen.append(_chosen_index(file, files, weights))
        elif not selection.weights_only:
            chosen.append(Chosen(file))
    if not chosen:
        globs = ", ".join(selection.files) or "*"
        raise NoMatch("file with tensors", globs, [], way_out=_NO_TENSORS)
    return chosen


def wanted_names(
    names: Sequence[str], selection: Selection, groups: Mapping[str, Sequence[str]]
) -> frozenset[str] | None:
    """Return the tensors that the patterns select, ``None`` for all.

    Raises:
        NoMatch: a pattern matches nothing, or nothing is left.
        UsageError: a pattern cannot be read.
    """
    if not selection.layers and not selection.exclude:
        return None
    if not names:
        pattern = ", ".join(selection.layers or selection.exclude)
        raise NoMatch("tensor", pattern, [], way_out=_NO_TENSORS)
    try:
        selected = select_tensors(
            names, layers=selection.layers, exclude=selection.exclude, groups=groups
        )
    except NoLayerMatches as error:
        raise NoMatch("tensor", error.pattern, error.near) from error
    except InvalidPattern as error:
        raise UsageError(as_sentence(str(error))) from error
    if not selected:
        raise NoMatch("tensor left after --exclude", ", ".join(selection.exclude), [])
    return frozenset(selected)


def _several(texts: str | Sequence[str]) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else tuple(texts)


def _matching_files(files: Sequence[File], globs: Iterable[str]) -> list[File]:
    found: set[str] = set()
    paths = [file.path for file in files]
    for glob in globs:
        hits = {path for path in paths if fnmatchcase(path, glob)}
        if not hits:
            import difflib  # lazy: only for mistakes

            near = difflib.get_close_matches(glob, paths, n=5, cutoff=0.4)
            raise NoMatch("file", glob, near or paths[:5])
        found |= hits
    return [file for file in files if not globs or file.path in found]


def _chosen_weights(file: File, wanted: frozenset[str] | None) -> Chosen | None:
    names = frozenset(tensor.name for tensor in file.tensors)
    if wanted is None or names <= wanted:
        return Chosen(file)
    taken = names & wanted
    return Chosen(file, taken) if taken else None


def _is_shard_index(file: File, files: Iterable[File]) -> bool:
    """Say whether a file is the index of weight files that lie beside it."""
    return is_index_path(file.path) and any(_is_shard_of(file, other) for other in files)


def _is_shard_of(index: File, other: File) -> bool:
    """Judge by the names: ``model.safetensors.index.json``, ``model-00001-of-2.safetensors``."""
    folder, _, name = index.path.rpartition("/")
    other_folder, _, other_name = other.path.rpartition("/")
    stem, _, ending = name.removesuffix(".index.json").rpartition(".")
    same_line = other_name.startswith(stem) and other_name.endswith(f".{ending}")
    return bool(other.tensors) and folder == other_folder and same_line


def _chosen_index(
    index: File, files: Sequence[File], weights: Mapping[str, Chosen | None]
) -> Chosen:
    shards = [weights[file.path] for file in files if _is_shard_of(index, file)]
    taken = tuple(shard for shard in shards if shard is not None)
    if len(taken) == len(shards) and all(shard.is_whole for shard in taken):
        return Chosen(index)
    return Chosen(index, shards=taken)
