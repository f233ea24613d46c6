"""Fixtures: a real nginx as the edge, with the configuration that operators get.

It runs as an unprivileged user even where the tests run as root.
"""

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from registry_api.edge_config.render import EdgeConfig, render
from registry_api.get.edge import Edge, edge_url

NOBODY = 65534
_PR_SET_PDEATHSIG = 1
SECRET = "tests-edge-secret-0123456789abcdef"


@dataclass(frozen=True, slots=True)
class RunningEdge:
    """An nginx that serves as an edge.

    Attributes:
        edge: as the registry knows it.
        folder: cache, logs, configuration.
        process: nginx's master.
    """

    edge: Edge
    folder: Path
    process: subprocess.Popen[bytes]

    def sign(self, origin_url: str, *, expires_in_s: int = 600) -> str:
        expires_at = datetime.now(UTC) + timedelta(seconds=expires_in_s)
        return edge_url(self.edge, origin_url, expires_at)

    def log(self) -> list[dict[str, object]]:
        """Return the access log, one entry a request."""
        lines = (self.folder / "access.log").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def flip_cached(self, digest: str) -> int:
        """Flip the last bit of every cached slice of an object, as a bad disk would.

        Returns:
            How many slices.
        """
        key = digest.removeprefix("sha256:").encode()
        slices = [p for p in self.cached_files() if key in p.read_bytes()[:4096]]
        for path in slices:
            blob = bytearray(path.read_bytes())
            blob[-1] ^= 1
            path.write_bytes(blob)
        return len(slices)

    def reconfigure(self, changes: Mapping[str, str]) -> None:
        """Replace words of the configuration and have nginx read it anew."""
        path = self.folder / "nginx.conf"
        text = path.read_text()
        for old, new in changes.items():
            assert old in text
            text = text.replace(old, new)
        path.write_text(text)
        workers = self._workers()
        self.process.send_signal(signal.SIGHUP)
        while self._workers() & workers:
            time.sleep(0.02)

    def _workers(self) -> set[str]:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return set(children.read_text().split())

    def cached_files(self) -> list[Path]:
        return [path for path in (self.folder / "cache").rglob("*") if path.is_file()]


StartEdge = Callable[..., RunningEdge]


@pytest.fixture
def start_edge() -> Iterator[StartEdge]:
    """Start edges in front of origins: ``start_edge(origin_url, slice_size="64k", ...)``."""
    with running_edges() as start:
        yield start


@contextmanager
def running_edges() -> Iterator[StartEdge]:
    """Give a function that starts edges; at the end they are stopped and removed."""
    started: list[RunningEdge] = []

    def start(origin: str, **options: str) -> RunningEdge:
        started.append(_start(origin, options))
        return started[-1]

    try:
        yield start
    finally:
        for edge in started:
            edge.process.terminate()
        for edge in started:
            edge.process.wait(timeout=20)
            shutil.rmtree(edge.folder)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _start(origin: str, options: dict[str, str]) -> RunningEdge:
    folder = Path(tempfile.mkdtemp(prefix="edge-", dir=options.pop("parent", None)))
    folder.chmod(0o755)
    program = shutil.copy2(find_nginx(), folder / "nginx")
    scheme, address = options.pop("scheme", "http"), f"127.0.0.1:{free_port()}"
    config = EdgeConfig(
        origin=origin,
        secret=SECRET,
        data_dir=str(folder),
        **{
            "listen": address,
            "access_log": str(folder / "access.log"),
            "workers": "2",
            "min_free": "1m",
            "include": f"{folder}/edge.d/*.conf",
            **options,
        },
    )
    (folder / "nginx.conf").write_text(render(config))
    identity = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
    if identity:
        os.chown(folder, NOBODY, NOBODY)
        os.chown(folder / "nginx.conf", NOBODY, NOBODY)
    with (folder / "error.log").open("wb") as log:
        process = subprocess.Popen(
            [program, "-e", "stderr", "-c", folder / "nginx.conf", "-g", "daemon off;"],
            stdin=subprocess.DEVNULL,
            stderr=log,
            stdout=log,
            preexec_fn=_end_with_parent,  # noqa: PLW1509 - one system call, no lock
            **identity,  # type: ignore[call-overload]
        )
    url = f"{scheme}://{config.listen.split()[0]}"
    edge = RunningEdge(Edge(name="tests", url=url, secret=SECRET), folder, process)
    _await_ready(edge)
    return edge


def _end_with_parent() -> None:
    """Have the kernel end the server even if the tests are killed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def find_nginx() -> str:
    """Return an nginx with the slice module: the machine's, else Debian's unpacked."""
    for found in (shutil.which("nginx"), "/usr/sbin/nginx"):
        if found and Path(found).exists() and _has_slice(found):
            return found
    script = Path(__file__).parents[2] / "tools" / "install_nginx.sh"
    answer = subprocess.run([script], check=True, capture_output=True, text=True)
    return str(script.parents[1] / answer.stdout.split()[-1])


def _has_slice(program: str) -> bool:
    answer = subprocess.run([program, "-V"], check=True, capture_output=True, text=True)
    return "http_slice_module" in answer.stderr


def _await_ready(edge: RunningEdge) -> None:
    for _ in range(200):
        if edge.process.poll() is not None:
            raise RuntimeError((edge.folder / "error.log").read_text())
        try:
            httpx.get(f"{edge.edge.url}/edge/health", verify=False).raise_for_status()
        except httpx.TransportError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"no answer from nginx: {(edge.folder / 'error.log').read_text()}")
