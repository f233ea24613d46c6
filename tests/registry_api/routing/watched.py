"""A model with versions of real weights, an inference server, and sidecars beside it."""

import itertools
import signal
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from ai_model_format.wire import EndpointInfo
from tests.services.envoy import TrafficStack, converge
from tests.services.inference import InferenceServer

START_S = 60.0


@dataclass
class Watched:
    """A model with two versions of real weights, and an inference server with a sidecar."""

    stack: TrafficStack
    model_id: str
    server: InferenceServer
    folder: Path
    running: ExitStack
    sidecars: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def log(self) -> str:
        return (self.folder / "sidecar.log").read_text()

    def watch(
        self,
        *options: str,
        name: str = "sidecar",
        endpoint: str | None = None,
        hooks: bool = True,
        ttl_s: int = 60,
    ) -> subprocess.Popen[bytes]:
        """Start a sidecar; it is stopped at the end."""
        base = f"http://{self.server.address}"
        command = [sys.executable, "-m", "ai_model_cli.main", "watch", "--model-id", self.model_id,
                   "--dir", str(self.folder / "served"), "--drain", "1"]  # fmt: skip
        if hooks:
            command += ["--on-load", f"{base}/hook", "--ready", f"{base}/ready/{{version}}"]
            command += ["--address", self.server.address, "--ttl", str(ttl_s)]
        environment = self.stack.environment | {"AI_MODEL_CACHE": str(self.folder / name)}
        if endpoint is not None:
            environment["AI_MODEL_ENDPOINT"] = endpoint
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen([*command, *options], env=environment, stderr=log)
        self.running.callback(end, process)
        return process

    def alias(self, version: str) -> None:
        with self.stack.registry() as registry:
            registry.set_alias(self.model_id, "production", version)

    def route(self, *options: str) -> None:
        self.stack.run("route", "--model-id", self.model_id, *options)

    def endpoint(self) -> EndpointInfo | None:
        listed = self.stack.traffic().endpoints(self.model_id)
        return next((one for one in listed if one.address == self.server.address), None)

    def live(self) -> set[str]:
        endpoint = self.endpoint()
        if endpoint is None or endpoint.state != "live":
            return set()
        return {loaded.version for loaded in endpoint.versions if loaded.matches}

    def holds(self, *versions: str) -> None:
        converge(lambda: self.live() == set(versions), timeout_s=START_S)

    def asked(self) -> list[tuple[str, str]]:
        return [(said["action"], said["version"]) for said in self.server.hooks()]

    def changes(self) -> list[set[str]]:
        """What the server's lease said from its first version on, each time it changed."""
        events = httpx.get(
            f"{self.stack.endpoints[0]}/v1/events",
            params={"model_id": self.model_id, "page_size": 1000},
            headers={"authorization": f"Bearer {self.stack.token}"},
        ).json()["events"]
        ours = [e for e in events if e["subject"] == self.server.address]
        said = [
            set(event["after"]["versions"]) if event["after"] else set()
            for event in sorted(ours, key=lambda event: event["event_id"])
        ]
        return list(itertools.dropwhile(lambda versions: not versions, said))


def end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
