"""What looking after the cache answers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ai_model.results import Result


@dataclass(frozen=True, slots=True)
class CachedItem(Result):
    """Something in the cache.

    Attributes:
        kind: a ``manifest``; files ``loaded`` for ``Registry.load``; a ``note`` of a directory
            that a get wrote, whose bytes are not the cache's own.
        name: digest of the manifest, or the directory.
        size: bytes; of a note, those of the files that are as they were noted.
        used_at: seconds since the epoch.
        usable: it still leads to something.
    """

    kind: Literal["manifest", "loaded", "note"]
    name: str
    size: int
    used_at: float
    usable: bool = True
    model_id: str = ""
    manifest_digest: str = ""


@dataclass(frozen=True, slots=True)
class CacheList(Result):
    """What is in the cache, what was used last first.

    Attributes:
        bytes_own: that the cache takes.
        bytes_noted: in directories that gets wrote, to copy from.
    """

    directory: Path
    items: tuple[CachedItem, ...]
    bytes_own: int
    bytes_noted: int


@dataclass(frozen=True, slots=True)
class Pruned(Result):
    """What was removed from the cache."""

    removed: tuple[CachedItem, ...]
    bytes_freed: int
    bytes_kept: int


@dataclass(frozen=True, slots=True)
class CacheProblem(Result):
    """A file of the cache, or one that it names, that is not as it should be."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class CacheVerified(Result):
    """The cache and what it names, hashed."""

    ok: bool
    problems: tuple[CacheProblem, ...]
    bytes_verified: int
