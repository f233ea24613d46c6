"""Many real clients at once: through the edge, and straight at an S3 that throttles and breaks."""

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from ai_model.get import fetch
from tests.edge.service import (
    MODEL,
    RunningRegistry,
    edge_settings,
    publish,
    running_registry,
    s3_options,
)
from tests.services.nginx import StartEdge
from tests.services.seaweedfs import S3Server, new_bucket
from tests.services.throttle import Counts, Faults, StartThrottle, Throttle

CLIENTS = 100


@pytest.fixture
def origin(s3_server: S3Server, start_throttle: StartThrottle) -> Throttle:
    return start_throttle(s3_server.endpoint_url)


@pytest.fixture
def start_registry(
    database: str, s3_server: S3Server, origin: Throttle, model: Path, tmp_path: Path
) -> Callable[..., contextmanager]:
    """Run a registry that holds the model and whose clients reach S3 by ``origin``."""

    @contextmanager
    def start(**more: object) -> Iterator[RunningRegistry]:
        options = s3_options(s3_server, new_bucket(), public=origin.url)
        with running_registry(database, **options, **more) as registry:
            registry.parts.store.ensure_bucket()
            publish(registry, model, tmp_path)
            origin.counts = Counts()
            yield registry

    return start


def gather(registry: RunningRegistry, model: Path, folder: Path, *, clients: int) -> None:
    """Have many machines get the model at once; every one must have it right."""
    wanted = model.read_bytes()

    def one(number: int) -> None:
        place = folder / f"machine-{number}"
        with registry.client(place / "cache", connections=8) as client:
            client.get(MODEL, "v1", output=place / "out")
        assert (place / "out" / model.name).read_bytes() == wanted
        shutil.rmtree(place)

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(one, range(clients)))


def test_through_the_edge_the_origin_sends_one_copy(
    start_registry: Callable, start_edge: StartEdge, origin: Throttle, model: Path, tmp_path: Path
) -> None:
    edge = start_edge(origin.url, slice_size="512k")
    with start_registry(edges=[edge_settings(edge)]) as registry:
        gather(registry, model, tmp_path, clients=CLIENTS)
    assert origin.counts.body_bytes <= 1.05 * model.stat().st_size


def test_an_s3_that_throttles_and_resets_fails_nobody(
    start_registry: Callable, origin: Throttle, model: Path, tmp_path: Path
) -> None:
    with start_registry() as registry:
        origin.faults = Faults(max_concurrent=2, reset_rate=0.05, first_byte_s=0.05)
        gather(registry, model, tmp_path, clients=CLIENTS)
    assert origin.counts.slow_downs > 0
    assert origin.counts.resets > 0


def test_stalled_connections_are_noticed_and_replaced(
    start_registry: Callable,
    origin: Throttle,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch, "_TIMEOUT", httpx.Timeout(5, read=0.5))  # 20 s are for networks
    with start_registry() as registry:
        origin.faults = Faults(stall_rate=0.3)
        gather(registry, model, tmp_path, clients=20)
    assert origin.counts.stalls > 0


def test_an_edge_whose_origin_breaks_fails_nobody(
    start_registry: Callable, start_edge: StartEdge, origin: Throttle, model: Path, tmp_path: Path
) -> None:
    edge = start_edge(origin.url, slice_size="512k")
    with start_registry(edges=[edge_settings(edge)]) as registry:
        origin.faults = Faults(reset_rate=0.5)
        gather(registry, model, tmp_path, clients=20)
    assert origin.counts.resets > 0


def test_more_requests_than_connections_to_postgres(
    database: str, model: Path, tmp_path: Path
) -> None:
    options = {"store": "local", "local_path": tmp_path / "objects", "database_pool_size": 2}
    with running_registry(database, **options) as registry:
        publish(registry, model, tmp_path)
        headers = {"Authorization": f"Bearer {registry.token}"}
        version = f"{registry.url}/v1/models/{MODEL}/versions/v1"

        def ask(number: int) -> int:
            url = (version, f"{version}/layout", f"{version}/manifest")[number % 3]
            return httpx.get(url, headers=headers, timeout=60).status_code

        with ThreadPoolExecutor(60) as pool:
            assert list(pool.map(ask, range(120))) == [200] * 120
