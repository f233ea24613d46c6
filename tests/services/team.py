"""A registry as a team runs it: Postgres, S3, API processes, a worker, each for itself.

The processes are started by the commands of ``compose/compose.yaml``.
"""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from storage.settings import S3Settings

_ROOT = Path(__file__).parents[2]
_START_TIMEOUT_S = 120


@dataclass
class Team:
    """Running processes of one registry.

    Attributes:
        environment: of every process.
        logs: where each process writes what it says.
        apis: API processes by endpoint.
        token: of an admin.
    """

    environment: dict[str, str]
    logs: Path
    apis: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    token: str = ""

    def run(self, *arguments: str) -> str:
        """Run a process to its end and return what it prints."""
        done = subprocess.run(
            [sys.executable, "-m", "registry_api", *arguments],
            env=self.environment,
            cwd=_ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def start_api(self, *arguments: str) -> str:
        """Start an API process and return its endpoint once it answers."""
        process, log = self._start("api", "--port", "0", *arguments)
        endpoint = _endpoint(process, log)
        self.apis[endpoint] = process
        return endpoint

    def start_worker(self) -> None:
        """Start a worker."""
        self.workers.append(self._start("worker")[0])

    def kill(self, endpoint: str) -> None:
        """End an API process by SIGKILL."""
        process = self.apis.pop(endpoint)
        process.kill()
        process.wait()

    def _start(self, *arguments: str) -> tuple[subprocess.Popen[bytes], Path]:
        log = self.logs / f"{arguments[0]}-{len(list(self.logs.iterdir()))}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "registry_api", *arguments],
                env=self.environment,
                cwd=_ROOT,
                stdout=file,
                stderr=file,
            )
        return process, log


@contextmanager
def running_team(database_url: str, s3: S3Settings, logs: Path, **settings: str) -> Iterator[Team]:
    """Migrate an empty database, start two API processes and a worker, stop them at the end."""
    logs.mkdir()
    team = Team(_environment(database_url, s3) | settings, logs)
    try:
        team.run("migrate")
        team.token = team.run("create-token", "--name", "team")
        for _ in range(2):
            team.start_api()
        team.start_worker()
        yield team
    finally:
        _stop([*team.apis.values(), *team.workers])


def _environment(database_url: str, s3: S3Settings) -> dict[str, str]:
    return {
        "AI_MODEL_DATABASE_URL": database_url,
        "AI_MODEL_STORE": "s3",
        "AI_MODEL_S3_BUCKET": s3.bucket,
        "AI_MODEL_S3_PREFIX": s3.prefix,
        "AI_MODEL_S3_ENDPOINT_URL": str(s3.endpoint_url),
        "AI_MODEL_S3_REGION": s3.region,
        "AI_MODEL_S3_ACCESS_KEY_ID": str(s3.access_key_id),
        "AI_MODEL_S3_SECRET_ACCESS_KEY": str(s3.secret_access_key),
        "AI_MODEL_S3_ADDRESSING_STYLE": s3.addressing_style,
    }


def _endpoint(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline:
        if found := re.search(r"running on (http://\S+)", log.read_text()):
            return found[1]
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise RuntimeError(f"the API does not start: {log.read_text()[-2000:]}")


def _stop(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.send_signal(signal.SIGTERM)
    for process in processes:
        process.wait(timeout=60)
