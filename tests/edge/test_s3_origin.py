"""A real nginx in front of a real S3: the right bytes, once, for those who may read them."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from urllib.parse import urlsplit

import httpx
import pytest

from storage.s3 import S3ObjectStore, S3Settings
from tests.edge.origin import Stored, read, store_object
from tests.services.nginx import RunningEdge, StartEdge
from tests.services.throttle import StartThrottle, Throttle

KIB = 1024
SLICE = 64 * KIB
SIZE = 10 * SLICE + 1000


@pytest.fixture
def origin(
    s3_settings: Callable[..., S3Settings], start_throttle: StartThrottle
) -> Iterator[tuple[S3ObjectStore, Throttle]]:
    """An S3 behind a proxy that counts; URLs are signed for the proxy."""
    settings = s3_settings()
    proxy = start_throttle(settings.endpoint_url)
    store = S3ObjectStore(replace(settings, public_endpoint_url=proxy.url))
    yield store, proxy
    store.close()


@pytest.fixture
def stored(origin: tuple[S3ObjectStore, Throttle]) -> Stored:
    return store_object(origin[0], SIZE)


@pytest.fixture
def edge(origin: tuple[S3ObjectStore, Throttle], start_edge: StartEdge) -> RunningEdge:
    return start_edge(origin[1].url, slice_size="64k")


@pytest.fixture
def origin_url(origin: tuple[S3ObjectStore, Throttle], stored: Stored) -> str:
    url = origin[0].object_url(stored.digest, expires_in_s=600)
    assert url is not None
    return url


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
    edge: RunningEdge, origin: tuple[S3ObjectStore, Throttle], stored: Stored, origin_url: str
) -> None:
    url = edge.sign(origin_url)
    assert httpx.get(url).content == stored.data  # now it is in the cache
    before = origin[1].counts.requests
    parts = urlsplit(url)
    bare = f"{parts.scheme}://{parts.netloc}{parts.path}"
    other = store_object(origin[0], 100, seed=9)
    elsewhere = origin[0].object_url(other.digest, expires_in_s=600)
    assert elsewhere
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
    assert origin[1].counts.requests == before


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
    assert edge.cached_files() == []
    assert httpx.get(edge.sign(origin_url)).status_code == 200


def test_the_key_does_not_depend_on_signatures(
    edge: RunningEdge, origin: tuple[S3ObjectStore, Throttle], stored: Stored
) -> None:
    urls = [origin[0].object_url(stored.digest, expires_in_s=600 + n) or "" for n in range(3)]
    answers = [read(edge.sign(url, expires_in_s=60), 0, SLICE) for url in urls]
    assert [a.headers["X-Cache"] for a in answers] == ["MISS", "HIT", "HIT"]
    assert origin[1].counts.requests == 1
    assert origin[1].counts.body_bytes == SLICE


def test_many_at_once_cost_the_origin_one_copy(
    edge: RunningEdge, origin: tuple[S3ObjectStore, Throttle], stored: Stored, origin_url: str
) -> None:
    origin[1].faults = replace(origin[1].faults, first_byte_s=0.1)  # so that they do meet
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: httpx.get(edge.sign(origin_url)), range(20)))
    assert all(answer.content == stored.data for answer in answers)
    assert origin[1].counts.body_bytes == SIZE
    cached = [entry["cache"] for entry in edge.log()]
    assert cached.count("MISS") == 1
    assert cached.count("HIT") == 19


def test_an_outage_of_the_origin_leaves_what_is_cached(
    edge: RunningEdge, origin: tuple[S3ObjectStore, Throttle], stored: Stored, origin_url: str
) -> None:
    read(edge.sign(origin_url), 0, 2 * SLICE)
    origin[1].close()
    assert read(edge.sign(origin_url), 10, 2 * SLICE).content == stored.data[10 : 2 * SLICE]
    assert read(edge.sign(origin_url), 5 * SLICE, 6 * SLICE).status_code == 502


def test_a_copy_past_its_time_is_served_while_the_origin_is_away(
    start_edge: StartEdge, origin: tuple[S3ObjectStore, Throttle], stored: Stored, origin_url: str
) -> None:
    edge = start_edge(origin[1].url, slice_size="64k", valid="1s")
    url = edge.sign(origin_url)
    read(url, 0, SLICE)
    origin[1].close()
    while (answer := read(url, 0, SLICE)).headers["X-Cache"] == "HIT":
        pass
    assert answer.headers["X-Cache"] == "STALE"
    assert answer.content == stored.data[:SLICE]


def test_a_reset_before_the_answer_is_tried_again(
    edge: RunningEdge, origin: tuple[S3ObjectStore, Throttle], stored: Stored, origin_url: str
) -> None:
    origin[1].refuse_next = 1
    assert read(edge.sign(origin_url), 0, SLICE).content == stored.data[:SLICE]


def test_a_refetch_replaces_a_bad_copy(
    edge: RunningEdge, origin: tuple[S3ObjectStore, Throttle], stored: Stored, origin_url: str
) -> None:
    url = edge.sign(origin_url)
    read(url, 0, SLICE)
    [cached] = edge.cached_files()
    blob = bytearray(cached.read_bytes())
    blob[-1] ^= 1
    cached.write_bytes(blob)
    assert read(url, 0, SLICE).content != stored.data[:SLICE]
    refetch = {"Range": f"bytes=0-{SLICE - 1}", "Cache-Control": "no-cache"}
    assert httpx.get(url, headers=refetch).content == stored.data[:SLICE]
    after = read(url, 0, SLICE)
    assert (after.headers["X-Cache"], after.content) == ("HIT", stored.data[:SLICE])


def test_the_cache_stays_within_its_bounds(
    start_edge: StartEdge, origin: tuple[S3ObjectStore, Throttle], stored: Stored, origin_url: str
) -> None:
    edge = start_edge(origin[1].url, slice_size="64k", cache_size="256k")
    assert httpx.get(edge.sign(origin_url)).content == stored.data
    limit = 256 * KIB
    for _ in range(300):  # the manager looks at it every ten seconds at the latest
        if _disk_use(edge) <= limit:
            break
        httpx.get(f"{edge.edge.url}/edge/health")
        _wait_a_little()
    assert 0 < _disk_use(edge) <= limit
    assert httpx.get(edge.sign(origin_url)).content == stored.data


def test_the_log_keeps_no_right_to_read(edge: RunningEdge, origin_url: str) -> None:
    read(edge.sign(origin_url), 0, 10)
    [entry] = edge.log()
    assert entry["status"] == 206
    assert entry["cache"] == "MISS"
    assert "ignature" not in (edge.folder / "access.log").read_text()


def _disk_use(edge: RunningEdge) -> int:
    return sum(path.stat().st_size for path in edge.cached_files())


def _wait_a_little() -> None:
    import time

    time.sleep(0.1)
