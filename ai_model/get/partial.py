"""A directory of files that are being fetched, and adopting one that was left behind."""

import contextlib
import fcntl
import os
import secrets
import shutil
import socket
import time
from pathlib import Path

from ai_model.get.targets import FileTarget

_ABANDONED_AFTER_S = 24 * 3600
_PREFIX = "partial"
_NOBODY = 0
"""Stands for the process id of a run that let go in good order."""


class Partial:
    """Files under way, named by number. Held by a lock as long as its process lives.

    Attributes:
        adopted: an earlier run left bytes here, which have to be hashed before use.
    """

    def __init__(self, directory: Path, descriptor: int, *, adopted: bool) -> None:
        self.directory = directory
        self.adopted = adopted
        self._descriptor = descriptor
        self._files: dict[int, FileTarget] = {}

    def file(self, number: int, size: int) -> FileTarget:
        """Open (or make) the file of an output."""
        if number not in self._files:
            file = FileTarget(self.directory / str(number), writable=True)
            file.resize(size)
            self._files[number] = file
        return self._files[number]

    def has(self, number: int) -> bool:
        """Say whether an earlier run began this file."""
        return (self.directory / str(number)).is_file()

    def path(self, number: int) -> Path:
        """Return the name of an output's file here."""
        return self.directory / str(number)

    def bytes_allocated(self) -> int:
        """Return how much disk the files take already."""
        total = 0
        for path in self.directory.iterdir():
            with contextlib.suppress(OSError):
                total += path.stat().st_blocks * 512
        return total

    def release(self) -> None:
        """Close the files and leave them to whichever run comes next."""
        key = self.directory.name.split("-")[1]
        with contextlib.suppress(OSError):
            self.directory.rename(self.directory.with_name(_name(key, pid=_NOBODY)))
        self._close()

    def remove(self) -> None:
        """Delete everything."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self._close()

    def _close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def open_partial(staging: Path, key: str) -> Partial:
    """Adopt what an earlier run of the same content left behind, else begin anew.

    Args:
        staging: directory of the partials.
        key: names the planned content.
    """
    for left in sorted(staging.glob(f"{_PREFIX}-{key}-*")):
        partial = _adopt(left, staging / _name(key))
        if partial is not None:
            return partial
    directory = staging / _name(key)
    directory.mkdir()
    return Partial(directory, _try_lock(directory), adopted=False)


def remove_abandoned(staging: Path) -> None:
    """Delete what earlier runs of other content left behind long ago."""
    for left in staging.glob(f"{_PREFIX}-*"):
        descriptor = _claim(left, min_age_s=_ABANDONED_AFTER_S)
        if descriptor is not None:
            shutil.rmtree(left, ignore_errors=True)
            os.close(descriptor)


def _adopt(left: Path, own: Path) -> Partial | None:
    """Take over a partial whose owner is gone; the rename settles who of several gets it."""
    descriptor = _claim(left, min_age_s=0)
    if descriptor is None:
        return None
    try:
        left.rename(own)
    except OSError:
        os.close(descriptor)
        return None
    return Partial(own, descriptor, adopted=True)


def _claim(left: Path, *, min_age_s: float) -> int | None:
    """Return an open, locked descriptor if nobody seems to work in a partial."""
    try:
        age_s = time.time() - max(
            [left.stat().st_mtime, *(path.stat().st_mtime for path in left.iterdir())]
        )
        if age_s < min_age_s or not _owner_is_gone(left.name, age_s):
            return None
        descriptor = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        pass  # no locks on this file system: the owner's process id has to do
    return descriptor


def _try_lock(directory: Path) -> int:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def _name(key: str, *, pid: int | None = None) -> str:
    owner = os.getpid() if pid is None else pid
    return f"{_PREFIX}-{key}-{owner}-{secrets.token_hex(4)}-{_host()}"


def _owner_is_gone(name: str, age_s: float) -> bool:
    """Say whether the process that a partial is named after is dead, as far as can be seen."""
    try:
        _, _, pid, _, host = name.split("-", 4)
        if int(pid) == _NOBODY:
            return True
        if host == _host():
            os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (ValueError, OSError):
        pass  # not named by us, or a process of somebody else
    return age_s > _ABANDONED_AFTER_S


def _host() -> str:
    return "".join(c if c.isalnum() or c == "." else "_" for c in socket.gethostname())[:64]
