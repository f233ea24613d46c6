"""Which files a push takes, decided before anything is read.

Symbolic links are followed where they stay inside the directory and refused
where they leave it; special files are refused. ``.git`` and ``.ai-model`` (what
``get`` keeps for itself) are left out at any depth, and so are empty
directories, which a version cannot hold: a note names each.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ai_model.errors import FileChanged, PathNotFound, PathRefused, UsageError
from ai_model_format.names import InvalidName, parse_path

LEFT_OUT = frozenset({".git", ".ai-model"})


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file on this machine that is to be pushed.

    Attributes:
        path: inside the version.
        source: where it lies, links resolved.
        size: bytes.
        mtime_ns: when it was last written, in ns.
        inode: its number on its device.
    """

    path: str
    source: Path
    size: int
    mtime_ns: int
    inode: int

    def check_unchanged(self, descriptor: int) -> None:
        """Check that an open file is still the one that was scanned.

        Raises:
            FileChanged: it is not.
        """
        now = os.fstat(descriptor)
        if (now.st_size, now.st_mtime_ns, now.st_ino) != (self.size, self.mtime_ns, self.inode):
            raise FileChanged(self.source)


@dataclass(frozen=True, slots=True)
class Scan:
    """Files in the order of their paths, and sentences about what was left out."""

    files: tuple[LocalFile, ...]
    notes: tuple[str, ...]


def scan(root: Path) -> Scan:
    """Find the files of a push: ``root`` itself, or everything below it.

    Raises:
        PathNotFound: there is nothing at ``root``.
        PathRefused: something cannot be part of a version.
        UsageError: there is no file at all.
    """
    try:
        status = root.stat()
    except OSError as error:
        raise PathNotFound(root) from error
    notes: list[str] = []
    if stat.S_ISDIR(status.st_mode):
        found = list(_walk(root, "", _Inside(root.resolve(), notes)))
    else:
        found = [_local_file(root, root.name)]
    if not found:
        raise UsageError(f"{root} holds no file to push.")
    return Scan(tuple(sorted(found, key=lambda file: file.path)), tuple(notes))


@dataclass(frozen=True, slots=True)
class _Inside:
    """The directory that is pushed, and what was left out of it so far."""

    root: Path
    notes: list[str]


def _walk(
    directory: Path, prefix: str, inside: _Inside, above: tuple[Path, ...] = ()
) -> Iterator[LocalFile]:
    resolved = directory.resolve()
    if resolved in above:
        raise PathRefused(directory, "is a link to a directory that it lies in")
    entries = _entries(directory)
    if not entries and prefix:
        inside.notes.append(f"{prefix} is an empty directory and was left out.")
    for entry in entries:
        path = prefix + entry.name
        if entry.name in LEFT_OUT:
            inside.notes.append(f"{path} was left out.")
            continue
        source = Path(entry.path)
        if entry.is_symlink():
            _check_link(source, inside.root)
        if entry.is_dir():
            yield from _walk(source, f"{path}/", inside, (*above, resolved))
        else:
            yield _local_file(source, path)


def _entries(directory: Path) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(directory) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise PathRefused(directory, f"cannot be read: {error.strerror}") from error


def _check_link(link: Path, root: Path) -> None:
    try:
        target = link.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise PathRefused(link, "is a link to nothing") from error
    if not target.is_relative_to(root):
        raise PathRefused(
            link,
            f"is a link to {target}, outside of what is pushed",
            way_out="Copy the file into the directory.",
        )


def _local_file(source: Path, path: str) -> LocalFile:
    try:
        status = source.stat()
    except OSError as error:
        raise PathRefused(source, f"cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode):
        raise PathRefused(source, "is neither a file nor a directory")
    try:
        parse_path(path)
    except InvalidName as error:
        raise PathRefused(source, f"cannot be named in a version: a path {error.rule}") from error
    return LocalFile(path, source.resolve(), status.st_size, status.st_mtime_ns, status.st_ino)
