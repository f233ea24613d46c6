"""What a peer says about itself and how it is asked to move a model."""

from pathlib import Path

from benchmarks.core.envs import PeerUnavailable
from benchmarks.core.processes import Command, run
from benchmarks.core.s3 import Store
from benchmarks.core.stage import Stage

__all__ = ["Command", "Peer", "PeerUnavailable", "Stage"]


class Peer:
    """One way to move a model. Preparing is not timed; the commands that are returned are.

    Attributes:
        name: as in the tables.
        packages: what its environment holds, from PyPI.
        lacks: what it does not do of: verify by SHA-256, land atomically, resume, select, reuse.
        can_push: whether it uploads.
        can_tls: whether it reads a store over TLS here.
    """

    name = ""
    packages: tuple[str, ...] = ()
    lacks = ""
    can_push = True
    can_tls = True

    def __init__(self, stage: Stage, store: Store) -> None:
        """Install and configure it.

        Raises:
            PeerUnavailable: it does not run here.
        """
        self.stage = stage
        self.store = store
        self.bin = Path()
        if self.packages:
            self.bin = stage.envs.ensure(self.name.replace(" ", "-"), self.packages)
        self.setup()

    def setup(self) -> None:
        """Start what it needs besides the store."""

    def version(self) -> str:
        """Return the version of its first package."""
        package = self.packages[0].partition("[")[0] if self.packages else ""
        return self.stage.envs.version(self.name.replace(" ", "-"), package)

    def push(self, source: Path, name: str) -> list[Command]:
        """Return the commands that upload ``source`` under ``name``."""
        raise NotImplementedError

    def pull(self, source: Path, name: str, target: Path) -> list[Command]:
        """Return the commands that fetch what was stocked from ``source`` into ``target``."""
        raise NotImplementedError

    def stock(self, source: Path, name: str) -> None:
        """See that ``pull`` finds the model. Not timed."""
        run(self.push(source, name), self.stage.home)

    def landed(self, source: Path, target: Path) -> Path:
        """Return where the file lies after a pull."""
        return target / source.name


class ObjectPeer(Peer):
    """A peer that reads the one object that all of these share."""

    def stock(self, source: Path, name: str) -> None:
        """Put the object there once."""
        self.stage.object_key(source, self.store)

    def url(self, source: Path) -> str:
        """Return ``s3://bucket/key`` of the object."""
        return f"s3://{self.store.bucket}/{self.stage.object_key(source, self.store)}"

    def signed(self, source: Path) -> str:
        """Return a signed URL of the object."""
        return self.store.presign("GET", self.stage.object_key(source, self.store))
