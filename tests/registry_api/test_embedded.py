"""The whole registry in one process: starts, stops, starts again over the same data."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from tests.registry_api.conftest import push_plain


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A directory that the user of Postgres may enter: pytest's own is closed to others."""
    with tempfile.TemporaryDirectory(prefix="ai-model-serve-") as directory:
        yield Path(directory) / "data"


def start(data_dir: Path, port: int = 0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "registry_api.embedded", str(data_dir), str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def served(data_dir: Path, *, end: signal.Signals) -> Iterator[str]:
    """Run a server, give its endpoint, and stop it by a signal."""
    process = start(data_dir)
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield json.loads(line)["endpoint"]
    finally:
        process.send_signal(end)
        rest, errors = process.communicate(timeout=60)
    assert (rest, errors) == ("", "")
    assert process.returncode == (0 if end != signal.SIGKILL else -signal.SIGKILL)


def client_of(data_dir: Path) -> httpx.Client:
    config = tomllib.loads((data_dir / "client.toml").read_text())
    headers = {"Authorization": f"Bearer {config['token']}"}
    return httpx.Client(base_url=config["endpoint"], headers=headers, timeout=60)


def processes_on(data_dir: Path) -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(str(data_dir) in word for word in process.info["cmdline"] or [])
    ]


def test_stops_cleanly_and_keeps_everything(data_dir: Path) -> None:
    with served(data_dir, end=signal.SIGTERM) as endpoint, client_of(data_dir) as api:
        assert str(api.base_url).startswith(endpoint)
        assert (data_dir / "client.toml").stat().st_mode & 0o777 == 0o600
        assert push_plain(api, "m", "v1", {"a": b"kept"}).json()["state"] == "ready"
        token = api.headers["Authorization"]
    assert processes_on(data_dir) == []

    with served(data_dir, end=signal.SIGINT), client_of(data_dir) as api:
        assert api.headers["Authorization"] == token
        assert api.get("/v1/models/m/versions/v1/files/a").content == b"kept"
    assert processes_on(data_dir) == []


def test_starts_after_kill_9(data_dir: Path) -> None:
    with served(data_dir, end=signal.SIGKILL), client_of(data_dir) as api:
        assert push_plain(api, "m", "v1", {"a": b"kept"}).json()["state"] == "ready"
    with served(data_dir, end=signal.SIGTERM), client_of(data_dir) as api:
        assert api.get("/v1/models/m/versions/v1/files/a").content == b"kept"
    assert processes_on(data_dir) == []


def test_one_server_a_directory_and_a_port(data_dir: Path, tmp_path: Path) -> None:
    with served(data_dir, end=signal.SIGTERM) as endpoint:
        second = start(data_dir)
        output, errors = second.communicate(timeout=60)
        assert (second.returncode, output) == (1, "")
        assert errors == f"error: another server is running on {data_dir}\n"
        port = int(endpoint.rpartition(":")[2])
        third = start(tmp_path / "other", port=port)
        output, errors = third.communicate(timeout=60)
        assert (third.returncode, output) == (1, "")
        assert errors == f"error: cannot listen on 127.0.0.1:{port}: Address already in use\n"
    assert (data_dir / "serve.lock").exists()


def test_a_large_push_is_verified_by_the_worker(data_dir: Path) -> None:
    data = os.urandom(1024 * 1024) * 70
    with served(data_dir, end=signal.SIGTERM), client_of(data_dir) as api:
        done = push_plain(api, "m", "v1", {"large": data})
        assert (done.status_code, done.json()["state"]) == (202, "verifying")
        seen = api.get(f"/v1/pushes/{done.json()['push_id']}", params={"wait_s": 30}).json()
        assert (seen["state"], seen["created"]) == ("ready", True)
        assert seen["bytes_verified"] == len(data)
        part = api.get("/v1/models/m/versions/v1/files/large", headers={"Range": "bytes=-5"})
        assert (part.status_code, part.content) == (206, data[-5:])
