"""The yardstick: raw sockets and hashing inline, nothing else."""

import sys
from pathlib import Path

from benchmarks.peers.interface import Command, ObjectPeer

SCRIPT = Path(__file__).parents[1] / "clients" / "raw.py"


class RawSocket(ObjectPeer):
    """A script over sockets; what Python can do at most."""

    name = "raw socket"
    lacks = "hashes every byte, compares with nothing; no resume, no select, no atomic landing"
    can_push = False

    def pull(self, source: Path, name: str, target: Path) -> list[Command]:
        """Fetch by ranges."""
        size, url = str(source.stat().st_size), self.signed(source)
        argv = (sys.executable, "-S", str(SCRIPT), url, size, str(target / source.name))
        return [Command(argv, self.store.env)]
