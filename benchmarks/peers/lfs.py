"""Git LFS, straight to the store by its batch API."""

import shutil
import sys
from pathlib import Path

from benchmarks.core.envs import program
from benchmarks.core.processes import Command as ServerCommand
from benchmarks.core.processes import Server, free_ports, listening, run
from benchmarks.peers.interface import Command, Peer

SERVICE = Path(__file__).parents[1] / "services" / "lfs.py"


class GitLfs(Peer):
    """``git add``, ``commit``, ``push``; ``git clone``."""

    name = "git-lfs"
    lacks = "whole files only: no select, no reuse inside a file; one object is one stream"
    can_tls = False

    def setup(self) -> None:
        """Start a server of its batch API that answers with signed URLs."""
        program("git-lfs", debian="git-lfs")
        (self.port,) = free_ports(1)
        told = (
            self.store.endpoint,
            self.store.access_key,
            self.store.secret_key,
            self.store.bucket,
        )
        command = ServerCommand((sys.executable, str(SERVICE), str(self.port), *told))
        server = Server(command, self.stage.home, self.stage.scratch / "lfs.log")
        server.wait_until(lambda: listening(self.port))
        self.stage.serve(server)
        self.root = self.stage.folder("lfs")
        for key, value in _SETTINGS.items():
            self._git(self.root, "config", "--global", key, value)
        run([Command(("git", "lfs", "install", "--skip-repo"))], self.stage.home)

    def version(self) -> str:
        """Return what ``git lfs version`` says."""
        said = run([Command(("git", "lfs", "version"))], self.stage.home).output
        return said.split()[0].partition("/")[2]

    def push(self, source: Path, name: str) -> list[Command]:
        """Add, commit and push, in a repository of the model's own."""
        bare, work = self._folders(name)
        for folder in (bare, work):
            self.stage.folder(str(folder.relative_to(self.stage.scratch)))
        self._git(bare, "init", "--quiet", "--bare")
        self._git(work, "init", "--quiet")
        self._git(work, "remote", "add", "origin", str(bare))
        self._git(work, "lfs", "track", "*.safetensors")
        self._git(work, "config", "-f", ".lfsconfig", "lfs.url", f"http://127.0.0.1:{self.port}")
        shutil.copyfile(source, work / source.name)
        steps = (
            ("add", "."),
            ("commit", "--quiet", "-m", "model"),
            ("push", "--quiet", "origin", "main"),
        )
        return [Command(("git", *step), cwd=work) for step in steps]

    def stock(self, source: Path, name: str) -> None:
        """Push it once."""
        if not self._folders(name)[0].exists():
            run(self.push(source, name), self.stage.home)

    def pull(self, source: Path, name: str, target: Path) -> list[Command]:
        """Clone into a new folder."""
        bare = str(self._folders(name)[0])
        return [Command(("git", "clone", "--quiet", bare, str(target / "clone")))]

    def landed(self, source: Path, target: Path) -> Path:
        """Return the file in the clone."""
        return target / "clone" / source.name

    def _folders(self, name: str) -> tuple[Path, Path]:
        return self.root / f"{name}.git", self.root / name

    def _git(self, folder: Path, *argv: str) -> None:
        run([Command(("git", *argv), cwd=folder)], self.stage.home)


_SETTINGS = {
    "user.name": "bench",
    "user.email": "bench@localhost",
    "init.defaultBranch": "main",
    "lfs.locksverify": "false",
}
