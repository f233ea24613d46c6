"""The real client through a real edge, in front of the service's own store and of S3."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from pydantic import SecretStr

from registry_api.settings import EdgeSettings
from tests.edge.origin import read
from tests.edge.service import (
    MODEL,
    RunningRegistry,
    edge_settings,
    publish,
    running_registry,
    s3_options,
)
from tests.services.nginx import RunningEdge, StartEdge, free_port
from tests.services.seaweedfs import S3Server, new_bucket


@contextmanager
def on_local_store(
    database: str, folder: Path, start_edge: StartEdge
) -> Iterator[tuple[RunningRegistry, RunningEdge]]:
    port = free_port()
    edge = start_edge(f"http://127.0.0.1:{port}", slice_size="64k")
    edges = [edge_settings(edge)]
    store = {"store": "local", "local_path": folder / "objects"}
    with running_registry(database, port=port, edges=edges, **store) as registry:
        yield registry, edge


@contextmanager
def on_s3(
    database: str, s3_server: S3Server, start_edge: StartEdge
) -> Iterator[tuple[RunningRegistry, RunningEdge]]:
    edge = start_edge(s3_server.endpoint_url, slice_size="64k")
    options = s3_options(s3_server, new_bucket())
    with running_registry(database, edges=[edge_settings(edge)], **options) as registry:
        registry.parts.store.ensure_bucket()  # type: ignore[attr-defined]
        yield registry, edge


@pytest.fixture(params=["local", "s3"])
def running(
    request: pytest.FixtureRequest, database: str, tmp_path: Path, start_edge: StartEdge
) -> Iterator[tuple[RunningRegistry, RunningEdge]]:
    if request.param == "local":
        context = on_local_store(database, tmp_path, start_edge)
    else:
        context = on_s3(database, request.getfixturevalue("s3_server"), start_edge)
    with context as parts:
        yield parts


def test_a_get_goes_through_the_edge_and_the_next_is_served_by_it(
    running: tuple[RunningRegistry, RunningEdge], model: Path, tmp_path: Path
) -> None:
    registry, edge = running
    publish(registry, model, tmp_path)
    for number in range(2):
        with registry.client(tmp_path / f"cache-{number}") as client:
            result = client.get(MODEL, "v1", output=tmp_path / f"out-{number}")
        assert result.bytes_fetched >= model.stat().st_size
        assert (tmp_path / f"out-{number}" / model.name).read_bytes() == model.read_bytes()
    log = edge.log()
    assert {entry["status"] for entry in log} == {206}
    half = len(log) // 2
    assert {entry["cache"] for entry in log[half:]} == {"HIT"}


def test_both_signatures_expire_together(
    running: tuple[RunningRegistry, RunningEdge], model: Path, tmp_path: Path
) -> None:
    registry, edge = running
    publish(registry, model, tmp_path)
    with registry.client(tmp_path / "cache") as client:
        layout = client.api.layout(MODEL, "v1")
    [stored] = layout.objects
    assert stored.url.startswith(edge.edge.url)
    assert stored.origin_url is not None
    assert not stored.origin_url.startswith(edge.edge.url)
    query = parse_qs(urlsplit(stored.url).query)
    assert int(query["edge_expires"][0]) == int(layout.expires_at.timestamp())
    for url in (stored.url, stored.origin_url):
        assert read(url, 0, 8).content == model.read_bytes()[:8]
    origin_alone = urlsplit(stored.url)._replace(query=urlsplit(stored.origin_url).query).geturl()
    assert read(origin_alone, 0, 8).status_code == 403


def test_a_poisoned_copy_is_noticed_and_replaced(
    running: tuple[RunningRegistry, RunningEdge], model: Path, tmp_path: Path
) -> None:
    registry, edge = running
    publish(registry, model, tmp_path)
    with registry.client(tmp_path / "cache-0") as client:
        client.get(MODEL, "v1", output=tmp_path / "out-0")
        [stored] = client.api.layout(MODEL, "v1").objects
    assert edge.flip_cached(stored.digest) == -(-stored.size // (64 * 1024))
    assert httpx.get(stored.url).content != model.read_bytes()
    with registry.client(tmp_path / "cache-1") as client:
        client.get(MODEL, "v1", output=tmp_path / "out-1")
    assert (tmp_path / "out-1" / model.name).read_bytes() == model.read_bytes()
    assert httpx.get(stored.url).content == model.read_bytes()


def test_an_edge_that_stays_poisoned_is_passed_by(
    running: tuple[RunningRegistry, RunningEdge], model: Path, tmp_path: Path
) -> None:
    registry, edge = running
    publish(registry, model, tmp_path)
    with registry.client(tmp_path / "cache-0") as client:
        client.get(MODEL, "v1", output=tmp_path / "out-0")
        [stored] = client.api.layout(MODEL, "v1").objects
    edge.flip_cached(stored.digest)
    edge.reconfigure({"proxy_cache_bypass $refetch;": ""})
    with registry.client(tmp_path / "cache-1") as client:
        client.get(MODEL, "v1", output=tmp_path / "out-1")
    assert (tmp_path / "out-1" / model.name).read_bytes() == model.read_bytes()
    assert httpx.get(stored.url).content != model.read_bytes()


def test_an_edge_that_is_down_is_passed_by(
    running: tuple[RunningRegistry, RunningEdge], model: Path, tmp_path: Path
) -> None:
    registry, edge = running
    publish(registry, model, tmp_path)
    with registry.client(tmp_path / "cache") as client:
        edge.process.terminate()
        edge.process.wait(timeout=20)
        client.get(MODEL, "v1", output=tmp_path / "out")
    assert (tmp_path / "out" / model.name).read_bytes() == model.read_bytes()


def test_an_edge_with_another_secret_is_passed_by(
    database: str, model: Path, tmp_path: Path, start_edge: StartEdge
) -> None:
    port = free_port()
    edge = start_edge(f"http://127.0.0.1:{port}")
    known = edge_settings(edge)
    wrong = EdgeSettings(name=known.name, url=known.url, secret=SecretStr("x" * 40))
    store = {"store": "local", "local_path": tmp_path / "objects"}
    with running_registry(database, port=port, edges=[wrong], **store) as registry:
        publish(registry, model, tmp_path)
        with registry.client(tmp_path / "cache") as client:
            client.get(MODEL, "v1", output=tmp_path / "out")
    assert (tmp_path / "out" / model.name).read_bytes() == model.read_bytes()
    assert {entry["status"] for entry in edge.log()} == {403}


def test_networks_decide_who_goes_where(
    database: str, model: Path, tmp_path: Path, start_edge: StartEdge
) -> None:
    port = free_port()
    edge = start_edge(f"http://127.0.0.1:{port}")
    near = edge_settings(edge, ["10.0.0.0/8"])
    options = {
        "store": "local",
        "local_path": tmp_path / "objects",
        "edges": [near],
        "trusted_proxies": ["127.0.0.0/8"],
    }
    with running_registry(database, port=port, **options) as registry:
        publish(registry, model, tmp_path)
        with registry.client(tmp_path / "cache") as client:
            [from_here] = client.api.layout(MODEL, "v1").objects
        assert from_here.origin_url is None
        assert from_here.url.startswith(registry.url)

        def url_for(forwarded: str) -> str:
            answer = httpx.get(
                f"{registry.url}/v1/models/{MODEL}/versions/v1/layout",
                headers={
                    "Authorization": f"Bearer {registry.token}",
                    "X-Forwarded-For": forwarded,
                },
            )
            url: str = answer.json()["objects"][0]["url"]
            return url

        assert url_for("10.1.2.3").startswith(edge.edge.url)
        assert url_for("10.1.2.3, 192.0.2.7").startswith(registry.url)
        assert url_for("192.0.2.7, 10.1.2.3").startswith(edge.edge.url)
