"""The topology of compose/ as plain processes: any API process serves what another took."""

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from ai_model import Progress, Registry
from ai_model.errors import AiModelError, NetworkError
from ai_model.retry import RetryPolicy
from storage.settings import S3Settings
from tests.services.team import Team, running_team

MIB = 1024 * 1024


@pytest.fixture
def team(
    empty_database: str, s3_settings: Callable[..., S3Settings], tmp_path: Path
) -> Iterator[Team]:
    """Two API processes and a worker that verifies whatever is over 1 MiB."""
    with running_team(
        empty_database,
        s3_settings(),
        tmp_path / "logs",
        AI_MODEL_VERIFY_INLINE_BYTES=str(MIB),
    ) as team:
        yield team


@pytest.fixture
def client_of(team: Team, tmp_path: Path) -> Iterator[Callable[[str], Registry]]:
    """Make clients of one API process, each like a machine of its own."""
    made: list[Registry] = []

    def make(endpoint: str) -> Registry:
        client = Registry(endpoint, team.token, cache_dir=tmp_path / f"cache-{len(made)}")
        client.api.session.policy = RetryPolicy(tries=2, base_s=0.01, cap_s=0.05)
        made.append(client)
        return client

    yield make
    for client in made:
        client.close()


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """48 MiB: several parts of an upload."""
    random = np.random.default_rng(7)
    path = tmp_path / "model.safetensors"
    tensors = {
        f"{part}.{n}": random.random((MIB,), dtype=np.float32)
        for part in ("encoder", "decoder")
        for n in range(6)
    }
    save_file(tensors, path)
    return path


def test_pushed_through_one_got_through_the_other_and_one_is_killed(
    team: Team, client_of: Callable[[str], Registry], weights: Path, tmp_path: Path
) -> None:
    first, second = team.apis
    assert client_of(first).push(weights, "team/net", "v1", alias="live").created
    got = client_of(second).get("team/net", "live", layers="encoder", output=tmp_path / "part")
    whole, part = load_file(weights), load_file(tmp_path / "part" / weights.name)
    assert sorted(part) == [f"encoder.{n}" for n in range(6)]
    assert all(np.array_equal(part[name], whole[name]) for name in part)
    assert got.bytes_fetched <= sum(a.nbytes for a in part.values()) * 1.02 + 64 * 1024

    changed = {name: array + 1 for name, array in whole.items()}
    save_file(changed, weights)

    def kill_the_first(progress: Progress) -> None:
        if progress.phase == "upload" and progress.done and first in team.apis:
            team.kill(first)

    with pytest.raises(NetworkError):
        client_of(first).push(weights, "team/net", "v2", on_progress=kill_the_first)
    survivor = client_of(second)
    assert [v.version for v in survivor.versions("team/net")] == ["v1"]
    pushed = survivor.push(weights, "team/net", "v2")
    assert pushed.created
    assert pushed.bytes_sent < pushed.bytes_total
    third = team.start_api()
    client_of(third).get("team/net", "v2", output=tmp_path / "out")
    assert (tmp_path / "out" / weights.name).read_bytes() == weights.read_bytes()


def test_bytes_of_a_get_never_pass_through_the_api(
    team: Team, client_of: Callable[[str], Registry], weights: Path, tmp_path: Path
) -> None:
    first, second = team.apis
    client_of(first).push(weights, "net", "v1")
    reader = client_of(second)
    version = reader.open("net", "v1")
    assert version.files
    sources = reader.api.layout("net", "v1").objects
    for endpoint in list(team.apis):
        assert all(not source.url.startswith(endpoint) for source in sources)
        team.kill(endpoint)
    (source,) = sources
    body = httpx.get(source.url, headers={"Range": "bytes=0-99"})
    assert (body.status_code, body.content) == (206, weights.read_bytes()[:100])
    with pytest.raises(AiModelError) as caught:
        client_of(first).get("net", "v1", output=tmp_path / "out")
    assert caught.value.exit_code == 7
