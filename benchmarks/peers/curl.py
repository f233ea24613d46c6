"""curl, eight ranges at once."""

import shutil
from pathlib import Path

from benchmarks.core.envs import program
from benchmarks.core.processes import run
from benchmarks.peers.interface import Command, ObjectPeer

RANGES = 8


class Curl(ObjectPeer):
    """``curl --parallel``: every range a file of its own, since curl cannot write at an offset."""

    name = "curl x8"
    lacks = "no verify, no select, no atomic landing; leaves eight pieces (joining is not timed)"
    can_push = False

    def setup(self) -> None:
        """Find curl."""
        self.curl = str(program("curl", debian="curl"))

    def version(self) -> str:
        """Return what ``curl --version`` says."""
        return run([Command((self.curl, "--version"))], self.stage.home).output.split()[1]

    def pull(self, source: Path, name: str, target: Path) -> list[Command]:
        """Fetch eight pieces."""
        size, url = source.stat().st_size, self.signed(source)
        argv = [self.curl, "--silent", "--fail", "--parallel"]
        for number in range(RANGES):
            start, end = size * number // RANGES, size * (number + 1) // RANGES
            argv += ["--next"] if number else []
            argv += ["--silent", "--fail", "--range", f"{start}-{end - 1}"]
            argv += ["--output", str(target / f"{number}"), url]
        return [Command(tuple(argv), self.store.env)]

    def landed(self, source: Path, target: Path) -> Path:
        """Join the pieces."""
        whole = target / source.name
        with whole.open("wb") as file:
            for number in range(RANGES):
                with (target / f"{number}").open("rb") as piece:
                    shutil.copyfileobj(piece, file)
        return whole
