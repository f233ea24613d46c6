"""Small real inference servers, each a process of its own, so that it can be killed."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.services.nginx import free_port

PROGRAM = Path(__file__).with_name("inference_process.py")


@dataclass
class InferenceServer:
    """A server with some versions loaded."""

    versions: tuple[str, ...]
    port: int = field(default_factory=free_port)
    fail_every: int = 0
    delay_ms: int = 0
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> "InferenceServer":
        command = [sys.executable, "-S", str(PROGRAM)]
        command += ["--port", str(self.port), "--fail-every", str(self.fail_every)]
        command += ["--delay-ms", str(self.delay_ms)]
        self.process = subprocess.Popen([*command, *self.versions], stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"
        return self

    def answered(self) -> int:
        """Return how many requests it has answered."""
        return int(httpx.get(f"http://{self.address}/count", timeout=5).text)

    def tell(self, path: str) -> None:
        """Say ``/open`` or ``/close`` to its gate of loads."""
        httpx.get(f"http://{self.address}{path}", timeout=5).raise_for_status()

    def hooks(self) -> list[dict[str, str]]:
        """Return what a sidecar asked of it, oldest first."""
        asked: list[dict[str, str]] = httpx.get(f"http://{self.address}/hooks", timeout=5).json()
        return asked

    def kill(self) -> None:
        """End it with kill -9."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()
