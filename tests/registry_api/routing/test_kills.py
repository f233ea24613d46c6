"""kill -9 of the registry and of Envoy: nothing is lost on the stable version."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import httpx
import psycopg

from tests.registry_api.routing.conftest import Served
from tests.services.envoy import converge
from tests.services.load import Load
from tests.services.nginx import free_port

AWAY_S = 6.0
TTL_S = 4


def test_the_registry_may_be_away(served: Served) -> None:
    stack = served.stack
    with Load(stack.gateway_port, served.path) as load:
        converge(lambda: load.total > 100)
        silent = served.stable[0]
        stack.stop_beating(silent)
        stack.beat(served.model_id, silent, ttl_s=TTL_S)
        for port in stack.api_ports:
            stack.kill_api(port)
        time.sleep(AWAY_S)
        came_back = datetime.now(UTC)
        for port in stack.api_ports:
            stack.start_api(port)
        served.move(2000)
        converge(lambda: load.answers[200, "v2.4"] > 10)
        converge(lambda: _gone_at(served, silent.address), timeout_s=60)
    gone_at = _gone_at(served, silent.address)
    assert gone_at is not None
    assert (gone_at - came_back).total_seconds() >= 2 * TTL_S
    assert load.lost == {}


def test_envoy_comes_back_by_itself(served: Served) -> None:
    stack = served.stack
    assert stack.gateway_process is not None
    with Load(stack.gateway_port, served.path, connections=4) as load:
        converge(lambda: load.total > 100)
        os.kill(_child(stack.gateway_process), signal.SIGKILL)
        converge(lambda: load.broken >= load.connections)
        before = load.answers[200, "v2.3"]
        converge(lambda: load.answers[200, "v2.3"] > before + 200, timeout_s=60)
    assert set(load.answers) == {(200, "v2.3")}, "it answered before it knew what"
    served.move(10_000)
    assert served.get().json()["version"] == "v2.4"


def test_a_gateway_that_is_stopped_ends_its_requests(served: Served) -> None:
    gateway = served.stack.gateway_process
    assert gateway is not None
    with httpx.stream("GET", f"{served.stack.gateway_url}{served.path}/slow?s=80") as slow:
        chunks = slow.iter_text()
        assert next(chunks) == "chunk"
        gateway.send_signal(signal.SIGTERM)
        rest = "".join(chunks)
    assert rest == "chunk" * 79
    assert gateway.wait(30) == 0
    served.stack.start_gateway()
    assert served.get().status_code == 200


def test_a_wrong_token_is_said_at_once(served: Served) -> None:
    stack = replace(served.stack, token="aim_" + "0" * 64)
    command = [sys.executable, "-m", "ai_model_cli.main", "gateway", "--port", str(free_port())]
    done = subprocess.run(
        command, env=stack.environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 4, done.stderr


def _child(process: subprocess.Popen[bytes]) -> int:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return int(children.read_text().split()[0])


def _gone_at(served: Served, address: str) -> datetime | None:
    with psycopg.connect(served.stack.database) as connection:
        found = connection.execute(
            "SELECT gone_at FROM endpoint WHERE address = %s", [address]
        ).fetchone()
    return found[0] if found else None
