"""The output directory: staging, one lock, and putting finished files in place at once.

Everything unfinished lies in ``<output>/.ai-model`` (the same file system, so that
a rename is atomic), in a directory named after what it will hold and who fills it.
Names are unique, so two gets never write one file; the lock only spares them work,
and where ``flock`` does nothing all still end right.
"""

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ai_model.errors import PathRefused

STAGING = ".ai-model"
RECEIPT = "receipt.json"
_POLL_S = 0.02


class Staging:
    """The part of an output directory that the client keeps for itself."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.directory = output / STAGING
        self._created: list[Path] = []

    def create(self) -> None:
        """Make the directories that are missing.

        Raises:
            PathRefused: something else is in the way.
        """
        for directory in reversed([self.directory, self.output, *self.output.parents]):
            if directory == self.directory and directory.is_symlink():
                raise PathRefused(directory, "is a link")
            try:
                directory.mkdir()
            except FileExistsError:
                if not directory.is_dir():
                    raise PathRefused(directory, "is not a directory") from None
            except OSError as error:
                if not directory.is_dir():
                    raise PathRefused(directory, f"cannot be made: {error.strerror}") from error
            else:
                self._created.append(directory)

    def remove_if_empty(self) -> None:
        """Take away the directories that ``create`` made, where nothing was put in them."""
        if self.directory in self._created and not self._holds_more_than_lock():
            shutil.rmtree(self.directory, ignore_errors=True)
        for directory in reversed(self._created):
            with contextlib.suppress(OSError):
                directory.rmdir()

    @contextmanager
    def lock(self, on_wait: Callable[[str], None]) -> Iterator[None]:
        """Make the directory and let one get at a time work in it, where locks can be had."""
        descriptor = self._open_lock()
        try:
            _lock(descriptor, lambda: on_wait(f"Waiting for another get into {self.output}"))
            while not self._is_in_place(descriptor):  # whoever had it took it all away again
                os.close(descriptor)
                descriptor = self._open_lock()
                _lock(descriptor, lambda: None)
            yield
        finally:
            os.close(descriptor)

    def _open_lock(self) -> int:
        while True:
            self.create()
            with contextlib.suppress(FileNotFoundError):
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                return os.open(self.directory / "lock", flags, 0o666)

    def _is_in_place(self, descriptor: int) -> bool:
        try:
            return os.path.samestat((self.directory / "lock").stat(), os.fstat(descriptor))
        except FileNotFoundError:
            return False

    def put_in_place(self, finished: Sequence[tuple[Path, str]]) -> None:
        """Give finished files their names, (file, path below the output) each.

        Raises:
            PathRefused: a name cannot be taken.
        """
        folders: set[Path] = set()
        for temp, path in finished:
            final = self.output / path
            try:
                final.parent.mkdir(parents=True, exist_ok=True)
                temp.replace(final)
            except OSError as error:
                raise PathRefused(final, f"cannot be written: {error.strerror}") from error
            folders.update(folder for folder in final.parents if _is_below(folder, self.output))
        for folder in folders:
            sync_directory(folder)

    def check_paths(self, paths: Iterable[str]) -> None:
        """Check that files can be put at these paths without leaving the directory.

        Raises:
            PathRefused: a link or something else is in the way.
        """
        for path in paths:
            final = self.output / path
            for folder in final.parents:
                if _is_below(folder, self.output) and folder != self.output:
                    _check_folder(folder)
            if final.is_dir() and not final.is_symlink():
                raise PathRefused(final, "is a directory where a file is to be")

    def write_receipt(self, receipt: dict[str, Any]) -> None:
        """Note what the directory holds, durably."""
        temp = self.directory / f".{RECEIPT}.{os.getpid()}.{secrets.token_hex(4)}"
        with temp.open("w", encoding="utf-8") as file:
            json.dump(receipt, file, ensure_ascii=True, indent=1)
            file.flush()
            os.fsync(file.fileno())
        temp.replace(self.directory / RECEIPT)
        sync_directory(self.directory)

    def read_receipt(self) -> dict[str, Any] | None:
        """Return what the directory is said to hold, ``None`` where nothing is said."""
        try:
            receipt = json.loads((self.directory / RECEIPT).read_bytes())
        except (OSError, ValueError):
            return None
        return receipt if isinstance(receipt, dict) else None

    def _holds_more_than_lock(self) -> bool:
        return any(entry.name != "lock" for entry in self.directory.iterdir())


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable, where the file system can."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_folder(folder: Path) -> None:
    if folder.is_symlink():
        raise PathRefused(folder, "is a link, and files are not written through links")
    if folder.exists() and not folder.is_dir():
        raise PathRefused(folder, "is a file where a directory is to be")


def _is_below(folder: Path, output: Path) -> bool:
    return folder.is_relative_to(output)


def _lock(descriptor: int, on_wait: Callable[[], None]) -> None:
    """Wait for a lock; return without it where there are none."""
    told = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not told:
                on_wait()
                told = True
            time.sleep(_POLL_S)
        except OSError:
            return
        else:
            return
