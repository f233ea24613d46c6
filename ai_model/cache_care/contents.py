"""What is in the cache: manifests, files fetched for ``load``, and notes of directories."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ai_model.cache import Cache, Held, read_held
from ai_model.cache_care.results import CachedItem, CacheList

_MANIFEST_NAME = 64 + len(".json")


@dataclass(frozen=True, slots=True)
class Entry:
    """Something in the cache directory.

    Attributes:
        item: as it is shown.
        path: of the cache's own file or directory.
        held: what a note says lies elsewhere.
    """

    item: CachedItem
    path: Path
    held: Held | None = None


def list_cache(cache: Cache) -> CacheList:
    """Return everything in the cache, what was used last first."""
    items = tuple(entry.item for entry in [*own_entries(cache), *notes(cache)])
    return CacheList(
        directory=cache.directory,
        items=tuple(sorted(items, key=lambda item: -item.used_at)),
        bytes_own=sum(item.size for item in items if item.kind != "note"),
        bytes_noted=sum(item.size for item in items if item.kind == "note"),
    )


def own_entries(cache: Cache) -> list[Entry]:
    """Return manifests and loaded files, what was used last first."""
    found = [*_manifests(cache), *_loaded(cache)]
    return sorted(found, key=lambda entry: -entry.item.used_at)


def notes(cache: Cache) -> list[Entry]:
    """Return the notes of directories that gets wrote, the newest first."""
    found = [_note(path) for path in _entries_of(cache.notes_dir) if path.suffix == ".json"]
    return sorted(found, key=lambda entry: -entry.item.used_at)


def _manifests(cache: Cache) -> Iterator[Entry]:
    for path in _entries_of(cache.manifests_dir):
        if len(path.name) == _MANIFEST_NAME and path.suffix == ".json":
            name = f"sha256:{path.stem}"
            yield Entry(CachedItem("manifest", name, path.stat().st_size, _used_at(path)), path)


def _loaded(cache: Cache) -> Iterator[Entry]:
    for version in _entries_of(cache.loaded_dir):
        for path in _entries_of(version):
            size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
            yield Entry(CachedItem("loaded", str(path), size, _used_at(path)), path)


def _note(path: Path) -> Entry:
    held = read_held(path)
    if held is None:
        return Entry(CachedItem("note", path.name, 0, _used_at(path), usable=False), path)
    size = sum(file.size for file in held.files if file.is_unchanged())
    item = CachedItem(
        "note",
        held.root,
        size,
        _used_at(path),
        usable=size > 0,
        model_id=held.model_id,
        manifest_digest=held.manifest_digest,
    )
    return Entry(item, path, held)


def _entries_of(directory: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return sorted(directory.iterdir())
    return []


def _used_at(path: Path) -> float:
    return path.stat().st_mtime
