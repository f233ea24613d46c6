"""Killed or cut off at a random point of either direction, run again: it ends right.

``AI_MODEL_TEST_CUTS`` is how many random points each way gets (default 2),
``AI_MODEL_TEST_FIRST_SEED`` where their seeds begin.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from ai_model.errors import NetworkError
from ai_model.retry import RetryPolicy
from tests.end_to_end.random_models import next_model, random_model
from tests.services.proxies import running_wire

CUTS = int(os.environ.get("AI_MODEL_TEST_CUTS", "2"))
FIRST_SEED = int(os.environ.get("AI_MODEL_TEST_FIRST_SEED", "0"))
QUICK = RetryPolicy(tries=2, throttled_tries=2, base_s=0.01, cap_s=0.02)
PHASES = {"push": ["hash", "upload", "verify"], "get": ["fetch", "reuse"]}

pytestmark = pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + CUTS))


@pytest.fixture
def random(seed, model_id) -> Random:
    return Random(f"{model_id} {seed}")


@pytest.fixture
def versions(random, tmp_path) -> dict[str, Path]:
    """Two versions on disk, each of some megabytes."""
    first = random_model(random)
    first.plain["long.bin"] = random.randbytes(3_000_000)
    second = next_model(first, random)
    second.plain["longer.bin"] = random.randbytes(2_000_000)
    folders = {"v1": tmp_path / "v1", "v2": tmp_path / "v2"}
    first.write(folders["v1"])
    second.write(folders["v2"])
    return folders


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".ai-model" not in path.parts
    }


def run(server, cache: Path, *arguments: str, die_at: str = "") -> subprocess.CompletedProcess[str]:
    environment = server.environment(cache) | {"AI_MODEL_TEST_DIE_AT": die_at or ":2"}
    command = [sys.executable, "-m", "tests.ai_model.client_process", *arguments]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def killed_somewhere(server, cache: Path, random: Random, *arguments: str) -> None:
    """Run a command that is killed, if it gets to the point, as often as chance has it."""
    for _ in range(random.randint(1, 2)):
        point = f"{random.choice(PHASES[arguments[0]])}:{random.random():.3f}"
        done = run(server, cache, *arguments, die_at=point)
        assert done.returncode in (-signal.SIGKILL, 0), done.stdout + done.stderr


def test_killed_anywhere(random, any_registry, versions, model_id, tmp_path):
    cache, out = tmp_path / "cache", tmp_path / "out"
    for version, folder in versions.items():
        push = ("push", str(folder), model_id, version)
        killed_somewhere(any_registry, cache, random, *push)
        done = run(any_registry, cache, *push)
        assert done.returncode == 0, done.stdout + done.stderr
    for version, folder in versions.items():
        get = ("get", model_id, version, str(out))
        killed_somewhere(any_registry, cache, random, *get)
        done = run(any_registry, cache, *get)
        assert done.returncode == 0, done.stdout + done.stderr
        got = {file["path"] for file in json.loads(done.stdout)["files"]}
        assert {path: data for path, data in contents(out).items() if path in got} == contents(
            folder
        )
        assert not list((out / ".ai-model").glob("partial-*"))


def test_cut_off_anywhere(random, registry_server, new_client, versions, model_id, tmp_path):
    with running_wire(registry_server.endpoint) as wire:
        client = new_client(registry_server, endpoint=wire.url)
        client.api.session.policy = QUICK
        for version, folder in versions.items():
            size = sum(map(len, contents(folder).values()))
            cut_off(wire, random, size, lambda v=version, f=folder: client.push(f, model_id, v))
        getter = new_client(registry_server, endpoint=wire.url)
        getter.api.session.policy = QUICK
        for version, folder in versions.items():
            size = sum(map(len, contents(folder).values()))
            out = tmp_path / f"out-{version}"
            cut_off(wire, random, size, lambda v=version, o=out: getter.get(model_id, v, output=o))
            assert contents(out) == contents(folder)
            assert not list((out / ".ai-model").glob("partial-*"))


def cut_off(wire, random: Random, size: int, work) -> None:
    """Cut the wire after so many bytes, once or twice, then let the work be done."""
    for _ in range(random.randint(1, 2)):
        wire.left = random.randint(1, size + 20_000)
        with suppress(NetworkError):  # it may have been done before, and nothing else may happen
            work()
        wire.left = None
    work()
