"""What a run works on: options, folders, and servers that start when first asked for."""

import hashlib
import os
import re
import shutil
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from benchmarks.core import models
from benchmarks.core.envs import Envs, install_own
from benchmarks.core.processes import Command, Server, run
from benchmarks.core.s3 import Store
from benchmarks.services import seaweedfs

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "bench"
TOUCH = ROOT / "benchmarks" / "clients" / "touch.py"
MEMORY = Path("/proc/meminfo")


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line said. ``size`` is a model's bytes."""

    size: int
    repeat: int
    full: bool
    place: Path | None = None


@dataclass
class Stage:
    """One run's place. Use it as a context manager: leaving stops every server it started.

    Attributes:
        options: what was asked for.
        envs: where peers are installed.
        servers: all that run now.
        kept: peers that are up, by class and store, for all works of the run.
    """

    options: Options
    envs: Envs = field(default_factory=lambda: Envs(CACHE / "envs"))
    servers: list[Server] = field(default_factory=list)
    kept: dict[tuple[type, str], Any] = field(default_factory=dict)
    _exit: ExitStack = field(default_factory=ExitStack)
    _stocked: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    @cached_property
    def scratch(self) -> Path:
        """Where models and stores lie: on disk, in practice in the page cache."""
        return self._temporary(CACHE)

    @cached_property
    def landing(self) -> Path:
        """Where downloads land.

        Memory (``/dev/shm``) where it has room: otherwise a disk's writeback is measured in
        place of the clients, and only for those that wait for it.
        """
        memory = Path("/dev/shm")
        roomy = memory.is_dir() and shutil.disk_usage(memory).free > 3 * self.options.size
        return self._temporary(self.options.place or (memory if roomy else CACHE))

    def _temporary(self, parent: Path) -> Path:
        parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="ai-model-bench-", dir=parent))
        self._exit.callback(shutil.rmtree, folder, ignore_errors=True)
        return folder

    @property
    def home(self) -> Path:
        """The home of every command."""
        return self.scratch / "home"

    def folder(self, name: str) -> Path:
        """Return an empty folder of this name on the disk."""
        return self._emptied(self.scratch / name)

    def target(self, name: str) -> Path:
        """Return an empty folder of this name for a download to land in."""
        return self._emptied(self.landing / name)

    @staticmethod
    def _emptied(path: Path) -> Path:
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    def serve(self, server: Server) -> Server:
        """Stop ``server`` when the run ends, and count its CPU."""
        self.servers.append(server)
        self._exit.callback(server.stop)
        return server

    def settle(self, size: int) -> None:
        """Leave nothing to pay for to what runs next, which may take ``size`` bytes of memory.

        What earlier runs have yet to write is written. Memory that the machine below has taken
        back is fetched again, with room for buffers on top, and caches that would have to give way
        while it runs do so before.
        """
        os.sync()
        room = 1024 * int(re.search(r"MemAvailable: +(\d+) kB", MEMORY.read_text())[1])
        told = (sys.executable, str(TOUCH), str(min(size * 3 // 2 + 2**29, room * 3 // 4)))
        run([Command(told)], self.home)

    def server_cpu_s(self) -> float:
        """Return what all servers have used so far."""
        return sum(server.cpu_s() for server in self.servers)

    @cached_property
    def own_bin(self) -> Path:
        """The ``bin`` of an environment with our client alone, as ``pip install .`` gives it."""
        return install_own(ROOT, self.scratch / "env")

    @cached_property
    def store(self) -> Store:
        """The S3 that all peers share."""
        server, store = seaweedfs.start(self.scratch / "store")
        self.serve(server)
        return store

    @cached_property
    def tls_store(self) -> Store:
        """An S3 over TLS, whose certificate only our settings trust."""
        server, store = seaweedfs.start(self.scratch / "tls-store", tls=True)
        self.serve(server)
        return store

    def model(self, name: str, *, seed: int = 1, changed: int | None = None, size: int = 0) -> Path:
        """Return ``<scratch>/models/<name>/model.safetensors``, written when first asked for."""
        path = self.scratch / "models" / name / "model.safetensors"
        if not path.exists():
            say(f"writing {name}")
            models.write_model(path, size or self.options.size, seed=seed, changed=changed)
        return path

    def forget_model(self, name: str) -> None:
        """Remove a model's file."""
        shutil.rmtree(self.scratch / "models" / name, ignore_errors=True)

    def object_key(self, source: Path, store: Store) -> str:
        """Return the key of ``source`` as one object, stocked when first asked for."""
        key = f"whole/{source.parent.name}/{source.name}"
        if f"{store.endpoint}{key}" not in self._stocked:
            store.upload(source, key)
            self._stocked[f"{store.endpoint}{key}"] = key
        return key


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def say(text: str) -> None:
    """Tell what goes on, on stderr."""
    print(f"# {text}", file=sys.stderr, flush=True)
