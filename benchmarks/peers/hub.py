"""huggingface_hub's plain HTTP download."""

import json
import sys
import urllib.request
from pathlib import Path

from benchmarks.core.processes import Command as ServerCommand
from benchmarks.core.processes import Server, free_ports, listening
from benchmarks.core.stage import sha256_of
from benchmarks.peers.interface import Command, ObjectPeer

HERE = Path(__file__).parents[1]


class HuggingFaceHub(ObjectPeer):
    """``hf_hub_download`` against a server of the Hub's API that sends it on to the store."""

    name = "huggingface_hub"
    packages = ("huggingface_hub",)
    lacks = "checks the size only; fetches whole files; pushing needs the real Hub"
    can_push = False
    can_tls = False

    def setup(self) -> None:
        """Start the server of its API."""
        (self.port,) = free_ports(1)
        command = ServerCommand((sys.executable, str(HERE / "services/hub.py"), str(self.port)))
        server = Server(command, self.stage.home, self.stage.scratch / "hub.log")
        server.wait_until(lambda: listening(self.port))
        self.stage.serve(server)

    def pull(self, source: Path, name: str, target: Path) -> list[Command]:
        """Download into a folder, its cache being new."""
        said = {
            "size": source.stat().st_size,
            "sha256": sha256_of(source),
            "url": self.signed(source),
        }
        address = f"http://127.0.0.1:{self.port}/bench/model/resolve/main/{source.name}"
        body = json.dumps(said).encode()
        urllib.request.urlopen(urllib.request.Request(address, body, method="PUT")).close()
        argv = (str(self.bin / "python"), str(HERE / "clients/hub.py"), source.name, str(target))
        env = {
            "HF_ENDPOINT": f"http://127.0.0.1:{self.port}",
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HOME": str(self.stage.folder("hf-home")),
        }
        return [Command(argv, env)]
