"""boto3's managed transfers."""

from pathlib import Path

from benchmarks.peers.interface import Command, ObjectPeer

SCRIPT = Path(__file__).parents[1] / "clients" / "boto.py"


class Boto3(ObjectPeer):
    """``download_file`` and ``upload_file`` as they come (ten threads)."""

    name = "boto3"
    packages = ("boto3",)
    lacks = "no SHA-256, no select, no reuse, no resume"

    def push(self, source: Path, name: str) -> list[Command]:
        """Upload by ``upload_file``."""
        return [self._command("push", str(source), f"boto3/{name}")]

    def pull(self, source: Path, name: str, target: Path) -> list[Command]:
        """Download by ``download_file``."""
        key = self.stage.object_key(source, self.store)
        return [self._command("pull", str(target / source.name), key)]

    def _command(self, verb: str, path: str, key: str) -> Command:
        argv = (str(self.bin / "python"), str(SCRIPT), verb, path, self.store.bucket, key)
        return Command(argv, self.store.env)
