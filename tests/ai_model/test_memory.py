"""2 GiB move through little memory, on the client and in the service."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.services.registry import RegistryServer

MIB = 1024 * 1024
SIZE = int(os.environ.get("AI_MODEL_TEST_LARGE_MIB", "2048")) * MIB
LIMIT = 300 * MIB


@pytest.fixture
def large_file(tmp_path: Path, model_id: str) -> Path:
    """A file that takes little room on this disk and whose chunks all differ."""
    path = tmp_path / "large.bin"
    with path.open("wb") as file:
        for start in range(0, SIZE, 16 * MIB):
            file.seek(start + 5)
            file.write(f"{model_id} {start}".encode())
        file.truncate(SIZE)
    return path


def run(server: RegistryServer, cache: Path, *arguments: str) -> dict:
    done = subprocess.run(
        [sys.executable, "-m", "tests.ai_model.client_process", *arguments],
        env=server.environment(cache),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_rss(pid: int) -> int:
    """Return the most memory that a process held since its peak was forgotten, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024


def test_memory_stays_bounded(any_registry, large_file, model_id, tmp_path):
    push = ("push", str(large_file), model_id, "v1")
    get = ("get", model_id, "v1", str(tmp_path / "out"))
    for cache, arguments in (("a", push), ("b", get)):
        forget_peak(any_registry.pid)
        done = run(any_registry, tmp_path / cache, *arguments)
        assert done["peak_rss"] < LIMIT, arguments
        assert peak_rss(any_registry.pid) < LIMIT, arguments
    assert done["bytes_fetched"] >= SIZE
    (tmp_path / "out" / large_file.name).unlink()
