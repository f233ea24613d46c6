"""MLflow: its own server, artifacts through its proxy."""

import json
import urllib.request
from pathlib import Path

from benchmarks.core.processes import Command as ServerCommand
from benchmarks.core.processes import Server, free_ports, run
from benchmarks.peers.interface import Command, Peer


class MLflow(Peer):
    """``mlflow artifacts``, the server with SQLite and the same S3 behind it."""

    name = "mlflow"
    packages = ("mlflow", "boto3")
    lacks = "no verify, no select, no reuse, no resume; bytes pass through its server"
    can_tls = False

    def setup(self) -> None:
        """Start its server."""
        folder = self.stage.folder("mlflow")
        (port,) = free_ports(1)
        self.address = f"http://127.0.0.1:{port}"
        argv = (
            str(self.bin / "mlflow"), "server", "--host", "127.0.0.1", "--port", str(port),
            "--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}", "--serve-artifacts",
            "--artifacts-destination", f"s3://{self.store.bucket}/mlflow", "--workers", "2",
        )  # fmt: skip
        env = {**self.store.env, "MLFLOW_S3_ENDPOINT_URL": self.store.endpoint, **_QUIET}
        path = f"{self.bin}:/usr/local/bin:/usr/bin:/bin"
        command = ServerCommand(argv, {**env, "PATH": path}, folder)
        server = Server(command, self.stage.home, self.stage.scratch / "mlflow.log")
        self.stage.serve(server)
        server.wait_until(self._healthy, timeout_s=120)
        self.runs: dict[str, str] = {}

    def push(self, source: Path, name: str) -> list[Command]:
        """Log an artifact to a new run."""
        answer = self._post("runs/create", {"experiment_id": "0", "run_name": name})
        self.runs[name] = answer["run"]["info"]["run_id"]
        return [self._command("log-artifact", "--local-file", str(source), "-r", self.runs[name])]

    def pull(self, source: Path, name: str, target: Path) -> list[Command]:
        """Download the artifact."""
        of = ("-r", self.runs[name], "-a", source.name)
        return [self._command("download", *of, "-d", str(target))]

    def stock(self, source: Path, name: str) -> None:
        """Push it once."""
        if name not in self.runs:
            run(self.push(source, name), self.stage.home)

    def _command(self, *argv: str) -> Command:
        env = {"MLFLOW_TRACKING_URI": self.address, **_QUIET}
        return Command((str(self.bin / "mlflow"), "artifacts", *argv), env)

    def _healthy(self) -> bool:
        try:
            return urllib.request.urlopen(f"{self.address}/health").status == 200
        except OSError:
            return False

    def _post(self, path: str, body: dict) -> dict:
        request = urllib.request.Request(
            f"{self.address}/api/2.0/mlflow/{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)


_QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
