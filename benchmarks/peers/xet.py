"""hf-xet on a local store: chunks cut by content, deduplicated."""

import json
from pathlib import Path

from benchmarks.core.processes import run
from benchmarks.peers.interface import Command, Peer

SCRIPT = Path(__file__).parents[1] / "clients" / "xet.py"


class HfXet(Peer):
    """The engine below the Hub, on its own store in a folder: no network, no server, no S3."""

    name = "hf-xet"
    packages = ("hf-xet",)
    lacks = "reads and writes a local folder here, no network in between; no select"
    can_tls = False

    def setup(self) -> None:
        """Make the store's folder."""
        self.root = self.stage.folder("xet")
        self.known: dict[str, tuple[str, int]] = {}

    def push(self, source: Path, name: str) -> list[Command]:
        """Upload."""
        return [self._command("push", str(source))]

    def stock(self, source: Path, name: str) -> None:
        """Upload and keep the digest that names the file there."""
        said = json.loads(run(self.push(source, name), self.stage.home).output)
        self.known[name] = (said["hash"], said["size"])

    def pull(self, source: Path, name: str, target: Path) -> list[Command]:
        """Download."""
        digest, size = self.known[name]
        return [self._command("pull", str(target / source.name), digest, str(size))]

    def _command(self, verb: str, *rest: str) -> Command:
        store = f"local://{self.root / 'store'}"
        env = {"HF_HOME": str(self.root / "home"), "HF_HUB_DISABLE_TELEMETRY": "1"}
        return Command((str(self.bin / "python"), str(SCRIPT), verb, store, *rest), env)
