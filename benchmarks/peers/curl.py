"""curl, eight ranges at once."""

from pathlib import Path

from benchmarks.core.envs import program
from benchmarks.core.processes import run
from benchmarks.peers.interface import Command, ObjectPeer

RANGES = 8


class Curl(ObjectPeer):
    """``curl --parallel``, then ``cat``: curl cannot write at an offset, and a file is wanted."""

    name = "curl x8"
    lacks = "no verify, no select, no atomic landing; eight pieces, joined by cat"
    can_push = False

    def setup(self) -> None:
        """Find curl."""
        self.curl = str(program("curl", debian="curl"))

    def version(self) -> str:
        """Return what ``curl --version`` says."""
        return run([Command((self.curl, "--version"))], self.stage.home).output.split()[1]

    def pull(self, source: Path, name: str, target: Path) -> list[Command]:
        """Fetch eight pieces and join them."""
        size, url = source.stat().st_size, self.signed(source)
        pieces = [str(target / str(number)) for number in range(RANGES)]
        argv = [self.curl, "--silent", "--fail", "--parallel"]
        for number, piece in enumerate(pieces):
            start, end = size * number // RANGES, size * (number + 1) // RANGES
            argv += ["--next"] if number else []
            argv += ["--silent", "--fail", "--range", f"{start}-{end - 1}"]
            argv += ["--output", piece, url]
        join = 'whole=$1; shift; cat "$@" >"$whole" && rm "$@"'
        whole = str(target / source.name)
        return [
            Command(tuple(argv), self.store.env),
            Command(("sh", "-c", join, "join", whole, *pieces)),
        ]
