"""Fixtures: a real registry by ``ai-model serve``, and a way to type commands at it."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

COMMAND = [sys.executable, "-m", "ai_model_cli.main"]
STOP_TIMEOUT_S = 60


@dataclass(frozen=True)
class Shell:
    """Types ``ai-model`` commands at one registry, in a folder of its own."""

    environment: dict[str, str]
    folder: Path

    def run(self, *arguments: str, code: int = 0, **options: Any) -> subprocess.CompletedProcess:
        done = subprocess.run(
            [*COMMAND, *arguments],
            env=self.environment, capture_output=True, text=True, check=False,
            **{"cwd": self.folder} | options,
        )  # fmt: skip
        assert done.returncode == code, (done.stdout, done.stderr)
        return done

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self.run(*arguments, "--json", code=code).stdout)

    def lines(self, *arguments: str) -> list[str]:
        return self.run(*arguments).stdout.splitlines()


@pytest.fixture(scope="session")
def served() -> Iterator[Path]:
    """Run a registry; its data directory, with ``client.toml`` in it.

    Not below pytest's folders: each pytest that starts takes their rights from others, and for
    root Postgres runs as another user.
    """
    with tempfile.TemporaryDirectory(prefix="ai-model-served-") as folder, _serving(Path(folder)):
        yield Path(folder)


@contextmanager
def _serving(data_dir: Path) -> Iterator[None]:
    with (data_dir / "log.txt").open("w") as log:
        server = subprocess.Popen(
            [*COMMAND, "serve", "--data-dir", str(data_dir), "--port", "0", "--json"],
            env=_environment(), stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
    try:
        assert server.stdout is not None
        ready = server.stdout.readline()
        assert ready, (data_dir / "log.txt").read_text()
        assert json.loads(ready)["endpoint"].startswith("http://127.0.0.1:")
        yield
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(STOP_TIMEOUT_S) == 0
        server.stdout.close()
        assert not (data_dir / "postgres" / "postmaster.pid").exists()


@pytest.fixture
def shell(served, tmp_path) -> Shell:
    environment = _environment() | {
        "AI_MODEL_CONFIG": str(served / "client.toml"),
        "AI_MODEL_CACHE": str(tmp_path / "cache"),
    }
    return Shell(environment, tmp_path)


@pytest.fixture
def weights(tmp_path) -> Path:
    """A file with an encoder of two layers and a head."""
    layers = {f"encoder.layer.{n}.weight": np.full((64, 64), n, dtype=np.float32) for n in range(2)}
    save_file(layers | {"head.weight": np.ones((4, 64), np.float32)}, tmp_path / "m.safetensors")
    return tmp_path / "m.safetensors"


def _environment() -> dict[str, str]:
    return {key: text for key, text in os.environ.items() if not key.startswith("AI_MODEL_")}
