"""The proxy misbehaves as it says, and the edge makes the best of it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from storage.s3 import S3ObjectStore
from tests.edge.origin import Stored, read, store_object
from tests.services.nginx import StartEdge
from tests.services.seaweedfs import S3Server, new_bucket
from tests.services.throttle import Faults, StartThrottle, Throttle

SIZE = 1024 * 1024


@pytest.fixture
def proxy(s3_server: S3Server, start_throttle: StartThrottle) -> Throttle:
    return start_throttle(s3_server.endpoint_url)


@pytest.fixture
def store(s3_server: S3Server, proxy: Throttle) -> Iterator[S3ObjectStore]:
    store = S3ObjectStore(s3_server.settings(new_bucket(), public_endpoint_url=proxy.url))
    store.ensure_bucket()
    yield store
    store.close()


@pytest.fixture
def stored(store: S3ObjectStore) -> Stored:
    return store_object(store, SIZE)


@pytest.fixture
def url(store: S3ObjectStore, stored: Stored) -> str:
    return store.object_url(stored.digest, expires_in_s=600) or ""


def test_it_changes_nothing_by_itself(proxy: Throttle, url: str, stored: Stored) -> None:
    with httpx.Client() as client:
        for _ in range(2):  # over one connection
            assert client.get(url).content == stored.data
    assert proxy.counts.body_bytes == 2 * SIZE


def test_it_takes_uploads_too(s3_server: S3Server, proxy: Throttle, store: S3ObjectStore) -> None:
    through = S3ObjectStore(s3_server.settings(store.settings.bucket, endpoint_url=proxy.url))
    stored = store_object(through, 3 * SIZE, seed=5)
    assert b"".join(store.read(stored.digest, 0, 3 * SIZE)) == stored.data
    through.close()


def test_too_many_at_once_are_told_to_slow_down(proxy: Throttle, url: str) -> None:
    proxy.faults = Faults(max_concurrent=2, first_byte_s=0.3)
    with ThreadPoolExecutor(8) as pool:
        statuses = [a.status_code for a in pool.map(httpx.get, [url] * 8)]
    assert set(statuses) == {200, 503}
    assert proxy.counts.slow_downs == statuses.count(503)


def test_resets_and_stalls_come_in_the_middle(proxy: Throttle, url: str) -> None:
    proxy.faults = Faults(reset_rate=1)
    with pytest.raises(httpx.TransportError):
        httpx.get(url)
    proxy.faults = Faults(stall_rate=1)
    with pytest.raises(httpx.ReadTimeout):
        httpx.get(url, timeout=1)
    assert (proxy.counts.resets, proxy.counts.stalls) == (1, 1)


def test_a_broken_fill_is_never_cached(
    start_edge: StartEdge, proxy: Throttle, url: str, stored: Stored
) -> None:
    edge = start_edge(proxy.url, slice_size="1m")
    proxy.faults = Faults(reset_rate=1)
    with pytest.raises(httpx.RemoteProtocolError):
        read(edge.sign(url), 0, SIZE)
    proxy.faults = Faults()
    answer = read(edge.sign(url), 0, SIZE)
    assert answer.headers["X-Cache"] == "MISS"
    assert answer.content == stored.data


def test_an_answer_that_is_no_object_is_never_cached(
    start_edge: StartEdge, proxy: Throttle, url: str, stored: Stored
) -> None:
    edge = start_edge(proxy.url, slice_size="1m")
    proxy.faults = Faults(max_concurrent=0)
    assert read(edge.sign(url), 0, SIZE).status_code == 503
    proxy.faults = Faults()
    assert read(edge.sign(url), 0, SIZE).content == stored.data
