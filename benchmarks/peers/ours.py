"""ai-model itself: its command, against its own registry on the same store."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.core.processes import Usage, run
from benchmarks.peers.interface import Command, Peer
from benchmarks.services.registry import start

MODEL = "bench/model"


class AiModel(Peer):
    """``ai-model push`` and ``get``, each a process of its own with an empty cache."""

    name = "ai-model"
    lacks = "-"
    place = "registry"
    """Folder of its registry."""

    def setup(self) -> None:
        """Start its registry on the store."""
        folder = self.stage.folder(f"{self.place}-tls" if self.store.ca else self.place)
        settings = self.service_settings(folder)
        self.registry = start(folder, self.store, self.stage.serve, settings=settings)
        self.settings = self.registry.clients
        self.stocked: set[str] = set()

    def service_settings(self, folder: Path) -> dict[str, str]:
        """Return more settings of the registry, whose folder this is."""
        return {}

    @property
    def program(self) -> str:
        """The command."""
        return str(self.stage.own_bin / "ai-model")

    def version(self) -> str:
        """Return the version of the program."""
        said = run([Command((self.program, "--version"))], self.stage.home).output
        return said.split()[-1]

    def push(self, source: Path, name: str) -> list[Command]:
        """Push."""
        told = ("push", str(source), "--model-id", MODEL, "--version", name, "--json")
        return [self.command(*told)]

    def stock(self, source: Path, name: str) -> None:
        """Push it once."""
        if name not in self.stocked:
            run(self.push(source, name), self.stage.home)
            self.stocked.add(name)

    def pull(self, source: Path, name: str, target: Path) -> list[Command]:
        """Get all of it, with nothing at hand."""
        return [self.get(name, target)]

    def get(
        self, name: str, target: Path, *, cache: Path | None = None, more: Sequence[str] = ()
    ) -> Command:
        """Return the command that gets a version; without ``cache``, on a machine that has none."""
        told = ("get", "--model-id", MODEL, "--version", name, "--output", str(target), "--json")
        return self.command(*told, *more, cache=cache)

    def command(self, *argv: str, cache: Path | None = None) -> Command:
        """Return a command of ours."""
        cache = cache or self.stage.folder("our-cache")
        env = {**self.settings, **self.store.env, "AI_MODEL_CACHE": str(cache)}
        return Command((self.program, *argv), env)


class AiModelLocal(AiModel):
    """The same on a folder, as ``ai-model serve`` keeps objects: beside peers that have no S3."""

    name = "ai-model, local"
    lacks = "objects in a folder behind its own API, no S3"
    place = "local-registry"

    def service_settings(self, folder: Path) -> dict[str, str]:
        """Keep objects beside Postgres."""
        return {"AI_MODEL_STORE": "local", "AI_MODEL_LOCAL_PATH": str(folder / "objects")}


def answer(usage: Usage) -> dict[str, Any]:
    """Return what ``--json`` said."""
    return json.loads(usage.output)
