"""Removes from the cache what was not used for long, or is too much."""

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from ai_model.cache import Cache
from ai_model.cache_care.contents import Entry, notes, own_entries
from ai_model.cache_care.results import Pruned
from ai_model.get.place import STAGING

IN_USE_S = 60.0
"""Files for ``load`` that were used within this time stay: somebody may be reading them."""


def prune(
    cache: Cache,
    *,
    older_than_s: float | None = None,
    max_bytes: int | None = None,
    now: Callable[[], float] = time.time,
) -> Pruned:
    """Remove what was used last too long ago, and of the rest what was, until it fits.

    Notes go when they are too old, and whenever the files they name are gone or were changed.

    Args:
        cache: to prune.
        older_than_s: how long ago the last use may be.
        max_bytes: how large manifests and loaded files may be together.
        now: seconds since the epoch.
    """
    kept = freed = 0
    removed = []

    def is_old(entry: Entry) -> bool:
        return older_than_s is not None and now() - entry.item.used_at > older_than_s

    for entry in own_entries(cache):
        too_much = max_bytes is not None and kept + entry.item.size > max_bytes
        if (is_old(entry) or too_much) and _remove(entry, now()):
            removed.append(entry.item)
            freed += entry.item.size
        else:
            kept += entry.item.size
    for entry in notes(cache):
        if is_old(entry) or not entry.item.usable:
            entry.path.unlink(missing_ok=True)
            removed.append(entry.item)
    return Pruned(tuple(removed), bytes_freed=freed, bytes_kept=kept)


def _remove(entry: Entry, now: float) -> bool:
    """Remove a manifest or a loaded directory, unless somebody is at it."""
    if entry.item.kind == "manifest":
        entry.path.unlink(missing_ok=True)
        return True
    if now - entry.item.used_at < IN_USE_S or not _remove_unlocked(entry.path):
        return False
    with contextlib.suppress(OSError):
        entry.path.parent.rmdir()  # the last of its version
    return True


def _remove_unlocked(directory: Path) -> bool:
    """Remove a directory that no get is writing to at the moment."""
    try:
        descriptor = os.open(directory / STAGING / "lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # nobody ever finished a get here
        shutil.rmtree(directory, ignore_errors=True)
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(directory, ignore_errors=True)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
