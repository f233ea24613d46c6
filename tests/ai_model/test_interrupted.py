"""Killed at any moment, run again: it goes on and ends right. Many at once too."""

import json
import random
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from ai_model.errors import DiskFull, FileChanged, ResourceConflict

MIB = 1024 * 1024


def run(
    server, cache: Path, *arguments: str, die_at: str = "", die_by: str = "SIGKILL"
) -> subprocess.CompletedProcess[str]:
    environment = server.environment(cache)
    if die_at:
        environment["AI_MODEL_TEST_DIE_AT"] = die_at
        environment["AI_MODEL_TEST_DIE_BY"] = die_by
        # One part behind the other: of four that go side by side none may be whole by then.
        environment["AI_MODEL_CONNECTIONS"] = "1"
    return subprocess.run(
        [sys.executable, "-m", "tests.ai_model.client_process", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def weights(tmp_path, model_id) -> Path:
    """48 MiB in one file."""
    numbers = np.random.default_rng(list(model_id.encode()))
    path = tmp_path / "model.safetensors"
    tensors = {f"l{n}": numbers.random((MIB,), dtype=np.float32) for n in range(12)}
    save_file(tensors, path)
    return path


@pytest.mark.parametrize("die_at", ["hash:0.5", "upload:0.6", "verify:0"])
def test_a_killed_push_goes_on(die_at, any_registry, new_client, weights, model_id, tmp_path):
    push = ("push", str(weights), model_id, "v1")
    killed = run(any_registry, tmp_path / "cache", *push, die_at=die_at)
    assert killed.returncode in (-signal.SIGKILL, 0)  # a push that is verified at once ends well
    again = run(any_registry, tmp_path / "cache", *push)
    assert again.returncode == 0, again.stdout + again.stderr
    result = json.loads(again.stdout)
    if die_at == "upload:0.6":
        assert 0 < result["bytes_sent"] < result["bytes_total"]
    client = new_client(any_registry)
    client.get(model_id, "v1", output=tmp_path / "out")
    assert (tmp_path / "out" / weights.name).read_bytes() == weights.read_bytes()


@pytest.mark.parametrize("die_at", ["fetch:0.1", "fetch:1"])
def test_a_killed_get_goes_on(die_at, any_registry, new_client, weights, model_id, tmp_path):
    new_client(any_registry).push(weights, model_id, "v1")
    out = tmp_path / "out"
    killed = run(any_registry, tmp_path / "cache", "get", model_id, "v1", str(out), die_at=die_at)
    assert killed.returncode == -signal.SIGKILL
    assert not (out / weights.name).exists()
    again = run(any_registry, tmp_path / "cache", "get", model_id, "v1", str(out))
    result = json.loads(again.stdout)
    assert again.returncode == 0, again.stdout + again.stderr
    assert (out / weights.name).read_bytes() == weights.read_bytes()
    assert result["bytes_reused"] > 0
    assert result["bytes_fetched"] < result["bytes_selected"]
    assert not list((out / ".ai-model").glob("partial-*"))


@contextmanager
def killed_at_some_moment(server, cache: Path, *arguments: str, after_s: float):
    """Run a client's process and end it by SIGKILL, wherever it then is."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.ai_model.client_process", *arguments],
        env=server.environment(cache),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        process.kill()
    yield process.wait()


def test_kill_9_at_any_moment(any_registry, new_client, weights, model_id, tmp_path):
    """Whatever moments these are on this machine: never half a version, never half a file."""
    moments = [0.3 + 0.25 * n for n in range(8)]
    random.Random(model_id).shuffle(moments)
    client, out = new_client(any_registry), tmp_path / "out"
    push = ("push", str(weights), model_id, "v1")
    for moment in moments:
        with killed_at_some_moment(any_registry, tmp_path / "a", *push, after_s=moment):
            seen = (
                [v.version for v in client.versions(model_id)]
                if model_id in {m.model_id for m in client.models(prefix=model_id)}
                else []
            )
            if seen:
                assert client.open(model_id, "v1").files[0].size == weights.stat().st_size
    assert run(any_registry, tmp_path / "a", *push).returncode == 0
    get = ("get", model_id, "v1", str(out))
    for moment in moments:
        with killed_at_some_moment(any_registry, tmp_path / "b", *get, after_s=moment):
            if (out / weights.name).exists():
                assert (out / weights.name).read_bytes() == weights.read_bytes()
    assert run(any_registry, tmp_path / "b", *get).returncode == 0
    assert (out / weights.name).read_bytes() == weights.read_bytes()
    assert not list((out / ".ai-model").glob("partial-*"))


def test_ctrl_c_keeps_what_was_fetched(registry_server, new_client, weights, model_id, tmp_path):
    new_client(registry_server).push(weights, model_id, "v1")
    out = tmp_path / "out"
    get = ("get", model_id, "v1", str(out))
    cut = run(registry_server, tmp_path / "cache", *get, die_at="fetch:0.3", die_by="SIGINT")
    assert cut.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in cut.stderr
    assert not (out / weights.name).exists()
    again = run(registry_server, tmp_path / "cache", *get)
    assert json.loads(again.stdout)["bytes_reused"] > 0
    assert (out / weights.name).read_bytes() == weights.read_bytes()


def test_fifty_gets_into_one_directory(registry_server, new_client, weights, model_id, tmp_path):
    new_client(registry_server).push(weights, model_id, "v1")
    clients = [new_client(registry_server) for _ in range(50)]
    with ThreadPoolExecutor(50) as pool:
        results = list(pool.map(lambda c: c.get(model_id, "v1", output=tmp_path / "out"), clients))
    assert (tmp_path / "out" / weights.name).read_bytes() == weights.read_bytes()
    assert sum(result.bytes_fetched > 0 for result in results) == 1
    assert not list((tmp_path / "out" / ".ai-model").glob("partial-*"))


def test_gets_end_right_where_locks_do_nothing(
    registry_server, new_client, weights, model_id, tmp_path, monkeypatch
):
    new_client(registry_server).push(weights, model_id, "v1")
    monkeypatch.setattr("fcntl.flock", lambda *_: None)
    clients = [new_client(registry_server) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda c: c.get(model_id, "v1", output=tmp_path / "out"), clients))
    assert (tmp_path / "out" / weights.name).read_bytes() == weights.read_bytes()


def test_parallel_pushes_of_one_version_have_one_winner(
    registry_server, new_client, model_id, tmp_path
):
    def push(number: int) -> str:
        path = tmp_path / str(number) / "f"
        path.parent.mkdir()
        path.write_bytes(bytes([number]) * 1000)
        try:
            return clients[number].push(path, model_id, "v1").manifest_digest
        except ResourceConflict as conflict:
            return conflict.code

    clients = [new_client(registry_server) for _ in range(20)]
    with ThreadPoolExecutor(20) as pool:
        ends = list(pool.map(push, range(20)))
    assert ends.count("version_conflict") == 19
    assert clients[0].open(model_id, "v1").digest in ends


def test_a_file_that_changes_during_the_push(registry_server, new_client, weights, model_id):
    client = new_client(registry_server)

    def change(progress):
        if progress.phase == "upload":
            with weights.open("r+b") as file:
                file.write(b"\0")

    with pytest.raises(FileChanged, match="changed while"):
        client.push(weights, model_id, "v1", on_progress=change)
    assert list(client.models(prefix=model_id)) == [] or list(client.versions(model_id)) == []


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 60 MiB."""
    small = tmp_path / "mount"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=60m", "tmpfs", str(small)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a small disk can only be made by root")
    yield small
    subprocess.run(["umount", str(small)], check=True)


def test_a_disk_that_is_too_small_is_said_before_anything_is_fetched(
    registry_server, new_client, weights, model_id, small_disk
):
    new_client(registry_server).push(weights, model_id, "v1")
    (small_disk / "other").write_bytes(bytes(20 * MIB))
    with pytest.raises(DiskFull) as caught:
        new_client(registry_server).get(model_id, "v1", output=small_disk / "out")
    assert caught.value.exit_code == 8
    assert caught.value.needed == weights.stat().st_size
    assert not (small_disk / "out").exists()


def test_a_disk_that_fills_up_meanwhile(registry_server, new_client, weights, model_id, small_disk):
    new_client(registry_server).push(weights, model_id, "v1")
    client, hog = new_client(registry_server), small_disk / "other"

    def fill(progress):
        if progress.phase == "fetch" and not hog.exists():
            hog.write_bytes(bytes(30 * MIB))

    with pytest.raises(DiskFull):
        client.get(model_id, "v1", output=small_disk / "out", on_progress=fill)
    assert not (small_disk / "out" / weights.name).exists()
    hog.unlink()
    client.get(model_id, "v1", output=small_disk / "out")
    assert (small_disk / "out" / weights.name).read_bytes() == weights.read_bytes()


@pytest.mark.parametrize("filled_at", ["reuse", "fetch"])
def test_a_disk_that_fills_up_while_pieces_are_copied_and_fetched(
    filled_at, registry_server, new_client, weights, model_id, small_disk, tmp_path
):
    client, hog = new_client(registry_server), small_disk / "other"
    client.push(weights, model_id, "v1")
    client.get(model_id, "v1", output=tmp_path / "v1")
    with weights.open("r+b") as file:  # the second half is another
        file.seek(weights.stat().st_size // 2)
        file.write(random.Random(model_id).randbytes(weights.stat().st_size // 2))
    client.push(weights, model_id, "v2")

    def fill(progress):
        if progress.phase == filled_at and not hog.exists():
            with hog.open("wb", buffering=0) as file, suppress(OSError):
                while file.write(bytes(MIB)):
                    pass

    with pytest.raises(DiskFull):
        client.get(model_id, "v2", output=small_disk / "out", on_progress=fill)
    assert not (small_disk / "out" / weights.name).exists()
    hog.unlink()
    again = client.get(model_id, "v2", output=small_disk / "out")
    assert (small_disk / "out" / weights.name).read_bytes() == weights.read_bytes()
    assert 0 < again.bytes_fetched < weights.stat().st_size
