"""torch zip: what ``torch.save`` writes, a stored zip of one pickle and raw storages.

The pickle is read as inert nodes, so no file can run code here. A subset keeps
the nesting, plain values, ties and views: the pickle is written anew without
what was not chosen, and the storages of what was chosen are copied whole.
Storages get new keys from 0 on, as in a file that torch has just saved. The
``.data/serialization_id`` is left out, because it names other content.

Kept whole, as opaque: compressed archives, TorchScript, pickles of protocol 0
and 1, and storages that no tensor explains (per-channel quantised ones).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from ai_model_format.byte_range import ByteRange
from ai_model_format.formats.interface import (
    Index,
    InvalidWeightFile,
    NotIndexable,
    ReadRange,
    Segment,
    SourceRange,
    check_tensor_name,
    check_tensors_known,
)
from ai_model_format.formats.pickle_cursor import InvalidPickle, UnusualPickle
from ai_model_format.formats.pickle_reader import MAX_PICKLE_SIZE, read_pickle
from ai_model_format.formats.pickle_writer import NestedTooDeep, write_pickle
from ai_model_format.formats.torch_tensors import InvalidTensor, UnusualTensor, storage_key
from ai_model_format.formats.torch_tree import Branch, grow, prune, tensors_of
from ai_model_format.formats.zip_directory import (
    STORED,
    Directory,
    Entry,
    InvalidZip,
    UnusualZip,
    data_offsets,
    read_directory,
)
from ai_model_format.formats.zip_writer import Record, write_archive
from ai_model_format.manifest import Tensor

DEFAULT_ALIGNMENT = 64
_MAX_ALIGNMENT = 1 << 20
_MAX_SMALL_RECORD = 4096
_PICKLE = "data.pkl"
_STORAGES = "data/"
_SERIALIZATION_ID = ".data/serialization_id"
_SMALL_RECORDS = (".format_version", ".storage_alignment", "byteorder", "version")


class TorchZip:
    """The format of ``torch.save`` since torch 1.6."""

    name = "torch_zip"
    media_type = "application/vnd.pytorch"

    def matches(self, head: bytes, size: int) -> bool:
        """Say whether this is a zip whose first entries have a ``data.pkl``."""
        return head.startswith(b"PK\x03\x04") and b"/data.pkl" in head

    def index(self, read: ReadRange, size: int) -> Index:
        """Read the directory, the local headers and the pickle.

        Raises:
            InvalidWeightFile: the archive, the pickle or a tensor breaks a rule.
            NotIndexable: TorchScript, a compressed archive, or beyond a bound.
        """
        with _Naming():
            archive = _open(read, size)
            starts = data_offsets(read, archive.directory.entries, limit=archive.directory.start)
            tree = grow(read_pickle(_content(read, archive.entries[_PICKLE], starts)))
            tensors = [_tensor(branch, archive, starts) for branch in tensors_of(tree)]
            if not tensors:
                raise UnusualTensor("the checkpoint has no tensors")
            _check_all_explained(archive, tensors)
        return Index(
            tensors=sorted(tensors, key=lambda tensor: (tensor.start, tensor.end)),
            structure=_structure(archive, starts, size),
            borders=[
                _range(entry, starts)
                for name, entry in archive.entries.items()
                if name.startswith(_STORAGES)
            ],
        )

    def subset(
        self, read: ReadRange, size: int, tensors: Sequence[Tensor], chosen: Collection[str]
    ) -> list[Segment]:
        """Write the pickle anew and copy the storages of the chosen tensors.

        Choosing every tensor gives the file itself.

        Raises:
            InvalidWeightFile: the structure does not fit ``tensors``.
            SubsetNotPossible: never, files of this format can be cut.
        """
        chosen = check_tensors_known(self.name, tensors, chosen)
        if len(chosen) == len(tensors):
            return [SourceRange(ByteRange(0, size))]
        with _Naming():
            archive = _open(read, size)
            small = _read_small(read, archive)
            tree = grow(read_pickle(small[_PICKLE]))
            storages = _locate_storages(tree, archive, tensors)
            root, _ = prune(tree, chosen)
            keys: dict[str, str] = {}
            pickled = write_pickle(root, rename=lambda id: _renumber(id, keys))
        records = _records(archive, small | {_PICKLE: pickled}, storages, keys)
        return write_archive(records, alignment=_alignment(small))


@dataclass(frozen=True, slots=True)
class _Archive:
    """A torch archive.

    Attributes:
        prefix: of every entry's name, with the slash.
        entries: by name behind the prefix, in order of their place in the file.
        directory: of the zip.
    """

    prefix: str
    entries: Mapping[str, Entry]
    directory: Directory


class _Naming:
    """Turns the errors of the parts into those of the format's interface."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, InvalidZip | InvalidPickle | InvalidTensor | NestedTooDeep):
            what = "data.pkl: " if isinstance(error, InvalidPickle | NestedTooDeep) else ""
            raise InvalidWeightFile(TorchZip.name, f"{what}{error}") from error
        if isinstance(error, UnusualZip | UnusualPickle | UnusualTensor):
            raise NotIndexable(TorchZip.name, str(error)) from error


def _open(read: ReadRange, size: int) -> _Archive:
    """Read the directory; what is read whole later, the pickle and small records, is bounded."""
    directory = read_directory(read, size)
    prefix = directory.entries[0].name.partition("/")[0] + "/" if directory.entries else ""
    entries = {entry.name.removeprefix(prefix): entry for entry in directory.entries}
    if _PICKLE not in entries:
        raise UnusualZip("the archive has no data.pkl")
    for name, entry in entries.items():
        if not (
            name.startswith(_STORAGES) or name in (_PICKLE, _SERIALIZATION_ID, *_SMALL_RECORDS)
        ):
            raise UnusualZip(f"the archive has an entry {entry.name[:200]!r}, as TorchScript has")
        if entry.name != prefix + name:
            raise UnusualZip(f"entry {entry.name[:200]!r} is not below {prefix[:200]!r}")
        if entry.method != STORED:
            raise UnusualZip(f"entry {entry.name[:200]!r} is compressed")
        if name in _SMALL_RECORDS and entry.size > _MAX_SMALL_RECORD:
            raise InvalidZip(f"entry {entry.name[:200]!r} has {entry.size} bytes")
    if entries[_PICKLE].size > MAX_PICKLE_SIZE:
        raise UnusualZip(f"{entries[_PICKLE].size} bytes of pickle are over {MAX_PICKLE_SIZE}")
    return _Archive(prefix, entries, directory)


def _range(entry: Entry, starts: Mapping[str, int]) -> ByteRange:
    return ByteRange(starts[entry.name], starts[entry.name] + entry.size)


def _content(read: ReadRange, entry: Entry, starts: Mapping[str, int]) -> bytes:
    """Return an entry's content. Its CRC is not checked: torch may have written none."""
    place = _range(entry, starts)
    return read(place.start, place.end)


def _tensor(branch: Branch, archive: _Archive, starts: Mapping[str, int]) -> Tensor:
    view = branch.view
    assert view is not None
    entry = archive.entries.get(_STORAGES + view.storage)
    if entry is None:
        raise InvalidTensor(
            f"tensor {branch.name[:200]!r}: there is no entry for storage {view.storage[:80]!r}"
        )
    if view.end > entry.size:
        raise InvalidTensor(
            f"tensor {branch.name[:200]!r}: it reaches byte {view.end} of entry"
            f" {entry.name[:200]!r}, which has {entry.size}"
        )
    start = starts[entry.name]
    return Tensor(
        name=check_tensor_name(TorchZip.name, branch.name),
        dtype=view.dtype,
        shape=view.shape,
        start=start + view.start,
        end=start + view.end,
        key_path=branch.path,
        storage=view.storage,
        stride=view.stride,
    )


def _check_all_explained(archive: _Archive, tensors: Sequence[Tensor]) -> None:
    explained = {tensor.storage for tensor in tensors}
    for name in archive.entries:
        if name.startswith(_STORAGES) and name.removeprefix(_STORAGES) not in explained:
            raise UnusualTensor(f"no tensor explains storage {name[:200]!r}")


def _structure(archive: _Archive, starts: Mapping[str, int], size: int) -> list[ByteRange]:
    """Return the runs of entries that are no storages, the last one up to the file's end."""
    runs: list[ByteRange] = []
    open_run = False
    for name, entry in archive.entries.items():
        if name.startswith(_STORAGES):
            open_run = False
            continue
        start = runs.pop().start if open_run else entry.header_offset
        runs.append(ByteRange(start, _range(entry, starts).end))
        open_run = True
    start = runs.pop().start if open_run else archive.directory.start
    return [*runs, ByteRange(start, size)]


def _read_small(read: ReadRange, archive: _Archive) -> dict[str, bytes]:
    """Return the content of the pickle and the small records, by name."""
    small = {}
    for name in (_PICKLE, *_SMALL_RECORDS):
        if entry := archive.entries.get(name):
            starts = data_offsets(read, [entry], limit=archive.directory.start)
            small[name] = _content(read, entry, starts)
    return small


def _locate_storages(
    tree: Branch, archive: _Archive, tensors: Sequence[Tensor]
) -> dict[str, ByteRange]:
    """Return where each storage lies, which the tensors' places say."""
    places = {tensor.name: tensor for tensor in tensors}
    storages: dict[str, ByteRange] = {}
    for branch in tensors_of(tree):
        tensor, view = places.get(branch.name), branch.view
        entry = archive.entries.get(_STORAGES + view.storage) if view else None
        if tensor is None or view is None or entry is None or tensor.storage != view.storage:
            raise InvalidTensor(f"tensor {branch.name[:200]!r} is not where its pickle says")
        start = tensor.start - view.start
        place = ByteRange(max(start, 0), max(start, 0) + entry.size)
        if storages.setdefault(view.storage, place) != place or place.end > archive.directory.start:
            raise InvalidTensor(f"tensor {branch.name[:200]!r} is not where its storage is")
    return storages


def _renumber(persistent_id: Any, keys: dict[str, str]) -> tuple[Any, ...]:
    """Give the storage in a persistent id its new key, noting it in ``keys``."""
    key = storage_key(persistent_id)
    new = keys.setdefault(key, str(len(keys)))
    return (*persistent_id[:2], new, *persistent_id[3:])


def _alignment(small: Mapping[str, bytes]) -> int:
    text = small.get(".storage_alignment", b"").decode("ascii", "replace")
    alignment = int(text) if text.isascii() and text.isdigit() and len(text) < 8 else 0
    return alignment if 0 < alignment <= _MAX_ALIGNMENT else DEFAULT_ALIGNMENT


def _records(
    archive: _Archive,
    small: Mapping[str, bytes],
    storages: Mapping[str, ByteRange],
    keys: Mapping[str, str],
) -> list[Record]:
    """Return the entries of the new archive, in the order of the old one."""
    records = []
    for name, entry in archive.entries.items():
        if name in small:
            records.append(Record(entry.name, crc32(small[name]), small[name]))
        elif (key := name.removeprefix(_STORAGES)) in keys:
            new_name = f"{archive.prefix}{_STORAGES}{keys[key]}"
            records.append(Record(new_name, entry.crc, storages[key]))
    return records
