"""DVC with an S3 remote."""

import shutil
from pathlib import Path

from benchmarks.core.processes import run
from benchmarks.peers.interface import Command, Peer


class Dvc(Peer):
    """``dvc add`` and ``dvc push``; ``dvc pull`` in a fresh project with an empty cache."""

    name = "dvc"
    packages = ("dvc", "dvc-s3")
    lacks = "MD5, and a flipped byte in a pull is not noticed; no select, no reuse inside a file"

    def setup(self) -> None:
        """Make a folder for its projects."""
        self.root = self.stage.folder("dvc")

    def push(self, source: Path, name: str) -> list[Command]:
        """Add and push, in a project of the model's own."""
        project = self._project(self.root / name)
        shutil.copyfile(source, project / source.name)
        return [self._command(project, "add", source.name), self._command(project, "push")]

    def stock(self, source: Path, name: str) -> None:
        """Push it once and keep only the pointer."""
        project = self.root / name
        if not project.exists():
            run(self.push(source, name), self.stage.home)
            shutil.rmtree(project / ".dvc" / "cache")
            (project / source.name).unlink()

    def pull(self, source: Path, name: str, target: Path) -> list[Command]:
        """Pull into a new project."""
        self._project(target)
        pointer = f"{source.name}.dvc"
        shutil.copyfile(self.root / name / pointer, target / pointer)
        return [self._command(target, "pull")]

    def _project(self, folder: Path) -> Path:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        remote = f"s3://{self.store.bucket}/dvc"
        run(
            [
                self._command(folder, "init", "--no-scm"),
                self._command(folder, "config", "core.analytics", "false"),
                self._command(folder, "remote", "add", "-d", "store", remote),
                self._command(
                    folder, "remote", "modify", "store", "endpointurl", self.store.endpoint
                ),
            ],
            self.stage.home,
        )
        return folder

    def _command(self, project: Path, *argv: str) -> Command:
        env = {
            **self.store.env,
            "DVC_NO_ANALYTICS": "1",
            "DVC_SITE_CACHE_DIR": str(self.root / "site"),
        }
        return Command((str(self.bin / "dvc"), *argv, "--quiet"), env, project)
