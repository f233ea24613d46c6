"""The edge, and a proxy that counts (and throttles) what the store sends."""

import json
import secrets
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from benchmarks.core.processes import Command, Server, free_ports, listening

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Origin:
    """The store behind a proxy that counts."""

    server: Server
    url: str

    def counts(self) -> dict[str, int]:
        """Return what went through so far."""
        with urllib.request.urlopen(f"{self.url}/-/counts") as answer:
            return json.load(answer)


def start_origin(folder: Path, endpoint: str, *options: str) -> Origin:
    """Start the proxy in front of a store."""
    folder.mkdir(parents=True, exist_ok=True)
    argv = (sys.executable, "-m", "tests.services.throttle_proxy", endpoint, *options)
    log = folder / "origin.log"
    server = Server(Command(argv, cwd=ROOT), folder, log)
    server.wait_until(lambda: "http" in log.read_text())
    return Origin(server, log.read_text().strip())


def start_edge(folder: Path, origin: str) -> tuple[Server, dict[str, str]]:
    """Start nginx in front of an origin; returns the registry's settings for it, too."""
    folder.mkdir(parents=True, exist_ok=True)
    (port,) = free_ports(1)
    secret = secrets.token_hex(32)
    config = folder / "nginx.conf"
    told = {
        "--origin": origin,
        "--data-dir": str(folder),
        "--listen": f"127.0.0.1:{port}",
        "--access-log": str(folder / "access.log"),
        "--min-free": "1m",
        "--include": f"{folder}/edge.d/*.conf",
        "--output": str(config),
    }
    words = [word for pair in told.items() for word in pair]
    module = (sys.executable, "-m", "registry_api.edge_config")
    subprocess.run((*module, *words), check=True, cwd=ROOT, env={"EDGE_SECRET": secret})
    found = subprocess.run(
        (ROOT / "tools/install_nginx.sh",), check=True, capture_output=True, text=True
    )
    program = str(ROOT / found.stdout.strip())
    argv = (program, "-e", "stderr", "-c", str(config), "-g", "daemon off; user root;")
    server = Server(Command(argv, cwd=folder), folder, folder / "error.log")
    server.wait_until(lambda: listening(port))
    edge = {"name": "bench", "url": f"http://127.0.0.1:{port}", "secret": secret}
    return server, {"AI_MODEL_EDGES": json.dumps([edge])}
