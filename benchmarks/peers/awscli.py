"""The AWS CLI."""

from pathlib import Path

from benchmarks.peers.interface import Command, ObjectPeer


class AwsCli(ObjectPeer):
    """``aws s3 cp`` as it comes (ten threads)."""

    name = "aws cli"
    packages = ("awscli",)
    lacks = "no SHA-256, no select, no reuse, no resume"

    def push(self, source: Path, name: str) -> list[Command]:
        """Upload."""
        return [self._copy(str(source), f"s3://{self.store.bucket}/aws/{name}")]

    def pull(self, source: Path, name: str, target: Path) -> list[Command]:
        """Download."""
        return [self._copy(self.url(source), str(target / source.name))]

    def _copy(self, source: str, target: str) -> Command:
        argv = (str(self.bin / "aws"), "s3", "cp", "--only-show-errors", source, target)
        return Command(argv, self.store.env)
