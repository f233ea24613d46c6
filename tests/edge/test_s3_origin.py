"""A real nginx in front of a real S3: the right bytes, once, for those who may read them."""

import itertools
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

import httpx
import pytest

from storage.s3 import S3ObjectStore, S3Settings
from tests.edge.origin import Stored, read, store_object
from tests.services.nginx import RunningEdge, StartEdge, running_edges
from tests.services.seaweedfs import S3Server, new_bucket
from tests.services.throttle import Counts, Faults, Throttle, running_throttle

KIB = 1024
SLICE = 64 * KIB
SIZE = 10 * SLICE + 1000
SEEDS = itertools.count()  # every test has an object of its own


@dataclass(slots=True)
class Origin:
    """An S3 behind a proxy that counts; URLs are signed for the proxy."""

    store: S3ObjectStore
    proxy: Throttle

    def url(self, stored: Stored, *, expires_in_s: int = 600) -> str:
        url = self.store.object_url(stored.digest, expires_in_s=expires_in_s)
        assert url is not None
        return url


@pytest.fixture(scope="module")
def settings(s3_server: S3Server) -> S3Settings:
    return s3_server.settings(new_bucket())


@pytest.fixture(scope="module")
def shared_origin(settings: S3Settings) -> Iterator[Origin]:
    with running_origin(settings) as origin:
        origin.store.ensure_bucket()
        yield origin


@pytest.fixture(scope="module")
def edge(shared_origin: Origin) -> Iterator[RunningEdge]:
    """One edge for the tests that leave it and its origin as they were."""
    with running_edges() as start:
        yield start(shared_origin.proxy.url, slice_size="64k")


@pytest.fixture
def origin(shared_origin: Origin) -> Origin:
    shared_origin.proxy.counts = Counts()
    return shared_origin


@pytest.fixture
def own_origin(settings: S3Settings, shared_origin: Origin) -> Iterator[Origin]:
    """An origin for a test that breaks it."""
    with running_origin(settings) as origin:
        yield origin


@contextmanager
def running_origin(settings: S3Settings) -> Iterator[Origin]:
    with running_throttle(settings.endpoint_url or "") as proxy:
        store = S3ObjectStore(replace(settings, public_endpoint_url=proxy.url))
        yield Origin(store, proxy)
        store.close()


@pytest.fixture
def stored(origin: Origin) -> Stored:
    return store_object(origin.store, SIZE, seed=next(SEEDS))


@pytest.fixture
def origin_url(origin: Origin, stored: Stored) -> str:
    return origin.url(stored)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (0, 1),
        (0, SLICE),
        (SLICE - 1, SLICE + 1),
        (3 * SLICE + 5, 7 * SLICE + 6),
        (SIZE - 1, SIZE),
        (0, SIZE),
    ],
)
def test_a_range_has_the_right_bytes_cold_and_warm(
    edge: RunningEdge, stored: Stored, origin_url: str, start: int, end: int
) -> None:
    url = edge.sign(origin_url)
    for _ in range(2):
        answer = read(url, start, end)
        assert answer.status_code == 206
        assert answer.headers["Content-Range"] == f"bytes {start}-{end - 1}/{SIZE}"
        assert answer.content == stored.data[start:end]


def test_a_whole_object_and_head(edge: RunningEdge, stored: Stored, origin_url: str) -> None:
    url = edge.sign(origin_url)
    head = httpx.head(url)
    assert (head.status_code, head.headers["Content-Length"]) == (200, str(SIZE))
    assert httpx.get(url).content == stored.data
    assert read(url, SIZE, SIZE + 1).status_code == 416


def test_nothing_is_read_without_a_right_signature(
    edge: RunningEdge, origin: Origin, stored: Stored, origin_url: str
) -> None:
    url = edge.sign(origin_url)
    assert httpx.get(url).content == stored.data  # now it is in the cache
    before = origin.proxy.counts.requests
    parts = urlsplit(url)
    bare = f"{parts.scheme}://{parts.netloc}{parts.path}"
    elsewhere = origin.url(store_object(origin.store, 100))
    own = "&".join(parts.query.split("&")[:2])
    wrong = {
        "none": bare,
        "the origin's alone": f"{bare}?{urlsplit(origin_url).query}",
        "changed": url.replace("edge_signature=", "edge_signature=A"),
        "longer life": url.replace("edge_expires=", "edge_expires=9"),
        "no time": url.replace("edge_expires=", "edge_expired="),
        "another object's": f"{bare[: -len(urlsplit(url).path)]}{urlsplit(elsewhere).path}?{own}",
    }
    for what, attempt in wrong.items():
        assert httpx.get(attempt).status_code == 403, what
        assert read(attempt, 0, 10).status_code == 403, what
    assert httpx.get(edge.sign(origin_url, expires_in_s=-2)).status_code == 410
    assert origin.proxy.counts.requests == before


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH", "OPTIONS"])
def test_an_edge_only_reads(edge: RunningEdge, origin_url: str, method: str) -> None:
    assert httpx.request(method, edge.sign(origin_url)).status_code in (403, 405)


@pytest.mark.parametrize(
    "path",
    ["/", "/v1/models", "/bucket/", "/bucket/objects/sha256/ab/cd/short", "/bucket?list-type=2"],
)
def test_nothing_but_objects_is_there(edge: RunningEdge, path: str) -> None:
    url = edge.sign(edge.edge.url + path)
    assert httpx.get(url).status_code == 404


def test_a_right_edge_signature_does_not_replace_the_origins(
    edge: RunningEdge, origin_url: str
) -> None:
    bare = urlsplit(origin_url)._replace(query="X-Amz-Signature=no").geturl()
    assert httpx.get(edge.sign(bare)).status_code == 403
    assert httpx.get(edge.sign(origin_url)).headers["X-Cache"] == "MISS"


def test_the_key_does_not_depend_on_signatures(
    edge: RunningEdge, origin: Origin, stored: Stored
) -> None:
    urls = [origin.url(stored, expires_in_s=600 + n) for n in range(3)]
    answers = [read(edge.sign(url, expires_in_s=60), 0, SLICE) for url in urls]
    assert [a.headers["X-Cache"] for a in answers] == ["MISS", "HIT", "HIT"]
    assert origin.proxy.counts.requests == 1
    assert origin.proxy.counts.body_bytes == SLICE


def test_many_at_once_cost_the_origin_one_copy(
    edge: RunningEdge, origin: Origin, stored: Stored, origin_url: str
) -> None:
    origin.proxy.faults = Faults(first_byte_s=0.1)  # so that they do meet
    path = urlsplit(origin_url).path
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: httpx.get(edge.sign(origin_url)), range(20)))
    origin.proxy.faults = Faults()
    assert all(answer.content == stored.data for answer in answers)
    assert origin.proxy.counts.body_bytes == SIZE
    cached = [entry["cache"] for entry in edge.log() if entry["path"] == path]
    assert sorted(cached) == ["HIT"] * 19 + ["MISS"]


def test_an_outage_of_the_origin_leaves_what_is_cached(
    start_edge: StartEdge, own_origin: Origin, stored: Stored
) -> None:
    edge = start_edge(own_origin.proxy.url, slice_size="64k")
    url = edge.sign(own_origin.url(stored))
    read(url, 0, 2 * SLICE)
    own_origin.proxy.close()
    assert read(url, 10, 2 * SLICE).content == stored.data[10 : 2 * SLICE]
    assert read(url, 5 * SLICE, 6 * SLICE).status_code == 502


def test_a_copy_past_its_time_is_served_while_the_origin_is_away(
    start_edge: StartEdge, own_origin: Origin, stored: Stored
) -> None:
    edge = start_edge(own_origin.proxy.url, slice_size="64k", valid="1s")
    url = edge.sign(own_origin.url(stored))
    read(url, 0, SLICE)
    own_origin.proxy.close()
    while (answer := read(url, 0, SLICE)).headers["X-Cache"] == "HIT":
        time.sleep(0.1)
    assert answer.headers["X-Cache"] == "STALE"
    assert answer.content == stored.data[:SLICE]


def test_a_connection_that_is_reset_is_tried_again(
    edge: RunningEdge, origin: Origin, stored: Stored, origin_url: str
) -> None:
    origin.proxy.refuse_next = 1
    assert read(edge.sign(origin_url), 0, SLICE).content == stored.data[:SLICE]
    assert origin.proxy.refuse_next == 0


def test_a_refetch_replaces_a_bad_copy(
    edge: RunningEdge, origin: Origin, stored: Stored, origin_url: str
) -> None:
    url = edge.sign(origin_url)
    read(url, 0, SLICE)
    edge.flip_cached(stored.digest)
    assert read(url, 0, SLICE).content != stored.data[:SLICE]
    refetch = {"Range": f"bytes=0-{SLICE - 1}", "Cache-Control": "no-cache"}
    assert httpx.get(url, headers=refetch).content == stored.data[:SLICE]
    after = read(url, 0, SLICE)
    assert (after.headers["X-Cache"], after.content) == ("HIT", stored.data[:SLICE])


def test_the_cache_stays_within_its_bounds(
    start_edge: StartEdge, origin: Origin, stored: Stored, origin_url: str
) -> None:
    edge = start_edge(origin.proxy.url, slice_size="64k", cache_size="256k")
    assert httpx.get(edge.sign(origin_url)).content == stored.data
    limit = 256 * KIB
    for _ in range(300):  # nginx looks after it every ten seconds
        if _disk_use(edge) <= limit:
            break
        time.sleep(0.1)
    assert 0 < _disk_use(edge) <= limit
    assert httpx.get(edge.sign(origin_url)).content == stored.data


def test_the_log_keeps_no_right_to_read(edge: RunningEdge, origin_url: str) -> None:
    read(edge.sign(origin_url), 0, 10)
    [entry] = [e for e in edge.log() if e["path"] == urlsplit(origin_url).path]
    assert entry["status"] == 206
    assert entry["cache"] == "MISS"
    assert "ignature" not in (edge.folder / "access.log").read_text()


def _disk_use(edge: RunningEdge) -> int:
    return sum(path.stat().st_size for path in edge.cached_files())
