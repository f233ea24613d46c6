"""The sidecar end to end: push, alias, watch, gateway."""

import itertools
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.services.envoy import TrafficStack, converge
from tests.services.inference import InferenceServer

MODEL = "team/watched"
LOG = "import sys; open(sys.argv[1], 'a').write(' '.join(sys.argv[2:]) + '\\n')"


@pytest.fixture
def server() -> Iterator[InferenceServer]:
    server = InferenceServer(("v1", "v2")).start()
    yield server
    server.stop()


def test_a_sidecar_follows_an_alias(
    traffic_stack: TrafficStack, server: InferenceServer, tmp_path: Path
) -> None:
    stack = traffic_stack
    for number in (1, 2):
        weights = tmp_path / f"v{number}" / "model.safetensors"
        weights.parent.mkdir()
        save_file({"encoder.weight": np.full(8, number, np.float32)}, weights)
        stack.run("push", str(weights.parent), "--model-id", MODEL, "--version", f"v{number}")
    stack.run("alias", "set", "production", "--model-id", MODEL, "--version", "v1")
    log = tmp_path / "loads.txt"
    script = tmp_path / "load.py"
    script.write_text(LOG)
    watcher = subprocess.Popen(
        [
            sys.executable, "-m", "ai_model_cli.main", "watch", "--model-id", MODEL,
            "--alias", "production", "--dir", str(tmp_path / "served"),
            "--on-load", f"{sys.executable} {script} {log}", "--ready",
            f"http://{server.address}/count", "--address", f"localhost:{server.port}",
        ],
        env=stack.environment,
    )  # fmt: skip
    try:
        converge(lambda: _loaded(stack) == {"v1"}, timeout_s=60)
        stack.run("route", "--model-id", MODEL, "--traffic", "100%", "--version", "v1")
        url = f"{stack.gateway_url}/m/{MODEL}/predict"
        converge(lambda: httpx.get(url).status_code == 200)
        assert httpx.get(url).json()["version"] == "v1"
        stack.run("alias", "set", "production", "--model-id", MODEL, "--version", "v2")
        converge(lambda: _loaded(stack) == {"v2"}, timeout_s=60)
        converge(lambda: len(log.read_text().splitlines()) == 3, timeout_s=60)
    finally:
        watcher.send_signal(signal.SIGTERM)
        assert watcher.wait(30) == 0
    loads = [line.split(" ") for line in log.read_text().splitlines()]
    assert [action for action, _ in loads] == ["load", "load", "unload"]
    assert [path for _, path in loads][::2] == [loads[0][1]] * 2, "the old one is unloaded"
    directories = [Path(path) for _, path in itertools.islice(loads, 2)]
    assert [d.is_symlink() for d in directories] == [False, False]
    values = [float(load_file(d / "model.safetensors")["encoder.weight"][0]) for d in directories]
    assert values == [1.0, 2.0]
    (endpoint,) = stack.traffic().endpoints(MODEL)
    assert endpoint.state == "draining"


def _loaded(stack: TrafficStack) -> set[str]:
    endpoints = stack.traffic().endpoints(MODEL)
    return {loaded.version for e in endpoints for loaded in e.versions if loaded.matches}
