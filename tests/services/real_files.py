"""Real weight files, downloaded once into ``.cache/weights`` and checked."""

import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.real_files_catalog import fetch

_DIRECTORY = Path(__file__).parents[2] / ".cache" / "weights"


@pytest.fixture(scope="session")
def real_file() -> Callable[[str], Path]:
    """Return a function from a name in the catalog to the file's path; never write to it."""

    def path_of(name: str) -> Path:
        _DIRECTORY.mkdir(parents=True, exist_ok=True)
        with (_DIRECTORY / f".{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one download for all xdist workers
            return fetch(name, _DIRECTORY)

    return path_of
