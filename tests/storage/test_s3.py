"""The S3 store against a real server: the contract, signatures, and stores that fail."""

import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from ai_model_format.digest import digest_of
from storage import s3
from storage.interface import (
    ObjectNotFound,
    StoreError,
    StoreFull,
    StoreUnavailable,
    Upload,
    UploadIncomplete,
)
from storage.s3 import S3ObjectStore, S3Settings
from tests.services.seaweedfs import S3Server, fresh_bucket
from tests.storage.contract import (
    MIB,
    ObjectStoreContract,
    http,
    listed,
    read_all,
    send_parts,
    some_bytes,
    store_bytes,
)

PART_SIZE = 5 * MIB

MakeSettings = Callable[..., S3Settings]


@contextmanager
def opened(settings: S3Settings) -> Iterator[S3ObjectStore]:
    store = S3ObjectStore(settings)
    try:
        yield store
    finally:
        store.close()


@pytest.fixture(scope="module")
def shared_bucket(s3_server: S3Server) -> Iterator[S3Settings]:
    with fresh_bucket(s3_server, part_size=PART_SIZE, page_size=2) as settings:
        yield settings


class TestS3ObjectStore(ObjectStoreContract):
    """The contract behind a prefix of its own; listings come in pages of two."""

    @pytest.fixture
    def open_store(self, shared_bucket: S3Settings) -> Iterator[Callable[[], S3ObjectStore]]:
        settings = replace(shared_bucket, prefix=f"team/{secrets.token_hex(4)}/")
        with ExitStack() as stack:
            yield lambda: stack.enter_context(opened(settings))

    @pytest.fixture
    def part_size(self) -> int:
        return PART_SIZE

    def wait_for_a_later_date(self) -> None:
        time.sleep(1.1)


@pytest.fixture
def settings(s3_settings: MakeSettings) -> S3Settings:
    return s3_settings(part_size=PART_SIZE)


@pytest.fixture
def store(settings: S3Settings) -> Iterator[S3ObjectStore]:
    with opened(settings) as store:
        yield store


def begin(store: S3ObjectStore, data: bytes, *, in_place: bool = False) -> Upload:
    return store.begin_upload(digest_of(data), len(data), in_place=in_place)


# Signed requests


def test_a_signed_get_takes_ranges(store: S3ObjectStore) -> None:
    data = some_bytes(1000)
    url = store.object_url(store_bytes(store, data), expires_in_s=60)
    assert http().get(url).content == data
    answer = http().get(url, headers={"Range": "bytes=10-19"})
    assert (answer.status_code, answer.content) == (206, data[10:20])
    assert answer.headers["Content-Range"] == "bytes 10-19/1000"
    assert http().get(url, headers={"Range": "bytes=1000-"}).status_code == 416


def test_a_signed_get_is_good_for_nothing_else(store: S3ObjectStore) -> None:
    one, two = store_bytes(store, b"one"), store_bytes(store, b"two")
    url = store.object_url(one, expires_in_s=60)
    other = store.object_url(two, expires_in_s=60)
    assert (
        http().get(urlsplit(other)._replace(query=urlsplit(url).query).geturl()).status_code == 403
    )
    assert http().get(re.sub(r"Expires=\d+", "Expires=6000", url)).status_code == 403
    assert http().get(url.partition("?")[0]).status_code == 403
    assert http().put(url, content=b"two").status_code == 403
    assert http().delete(url).status_code == 403
    assert read_all(store, one) == b"one"


def test_signed_requests_expire(store: S3ObjectStore) -> None:
    get = store.object_url(store_bytes(store, b"abc"), expires_in_s=1)
    put = store.part_target(begin(store, b"def"), 1, expires_in_s=1)
    time.sleep(2.1)
    assert http().get(get).status_code == 403
    assert http().put(put.url, content=b"def", headers=put.headers).status_code == 403


@pytest.mark.parametrize("in_place", [True, False])
def test_the_store_refuses_other_bytes_in_one_part(store: S3ObjectStore, in_place: bool) -> None:
    upload = begin(store, b"right", in_place=in_place)
    target = store.part_target(upload, 1, expires_in_s=60)
    assert set(target.headers) == {"If-None-Match", "x-amz-checksum-sha256"}
    for wrong in (b"wrong", b"righ", b"rights"):
        assert http().put(target.url, content=wrong, headers=target.headers).is_client_error
    assert http().put(target.url, content=b"right").status_code == 403
    assert store.parts_stored(upload) == {}
    send_parts(store, upload, b"right")
    again = http().put(target.url, content=b"right", headers=target.headers)
    assert again.status_code == 412
    store.complete(upload)


def test_a_part_of_a_signed_length_only(store: S3ObjectStore) -> None:
    data = some_bytes(PART_SIZE + 10)
    upload = begin(store, data)
    target = store.part_target(upload, 2, expires_in_s=60)
    assert http().put(target.url, content=b"x" * 9).status_code == 403
    assert http().put(target.url, content=b"x" * 11).status_code == 403
    assert store.parts_stored(upload) == {}


def test_a_part_url_is_good_for_that_part_only(store: S3ObjectStore) -> None:
    upload = begin(store, some_bytes(2 * PART_SIZE))
    url = store.part_target(upload, 1, expires_in_s=60).url
    assert "partNumber=1" in url
    moved = url.replace("partNumber=1", "partNumber=2")
    assert http().put(moved, content=b"x" * PART_SIZE).status_code == 403
    assert store.parts_stored(upload) == {}


def test_urls_name_the_public_host(s3_settings: MakeSettings) -> None:
    settings = s3_settings()
    inside = urlsplit(settings.endpoint_url)
    if inside.hostname != "127.0.0.1":
        pytest.skip("the store under test has one name only")
    public = f"http://localhost:{inside.port}"
    with opened(replace(settings, public_endpoint_url=public)) as store:
        upload = begin(store, b"abc")
        assert store.part_target(upload, 1, expires_in_s=60).url.startswith(public + "/")
        send_parts(store, upload, b"abc")
        store.complete(upload)
        store.publish(upload)
        url = store.object_url(upload.digest, expires_in_s=60)
        assert url.startswith(public + "/")
        assert http().get(url).content == b"abc"
        assert http().get(url.replace("localhost", "127.0.0.1")).status_code == 403


# What only S3 does


def test_parts_go_straight_to_the_store(store: S3ObjectStore) -> None:
    with pytest.raises(NotImplementedError):
        store.write_part(begin(store, b"abc"), 1, [b"abc"])


def test_an_upload_in_place_gathers_at_the_object(store: S3ObjectStore) -> None:
    data = some_bytes(PART_SIZE + 1)
    upload = begin(store, data, in_place=True)
    assert upload.in_place
    assert upload.key == _at(store, upload.digest)["Key"]
    send_parts(store, upload, data)
    store.complete(upload)
    assert read_all(store, upload.digest) == data


def test_in_place_gathers_elsewhere_when_something_lies_there(store: S3ObjectStore) -> None:
    store.client.put_object(**_at(store, digest_of(b"right")), Body=b"left over")
    upload = begin(store, b"right", in_place=True)
    assert not upload.in_place
    send_parts(store, upload, b"right")
    store.complete(upload)
    store.publish(upload)
    assert read_all(store, upload.digest) == b"right"


def test_parts_of_the_wrong_size_are_named(store: S3ObjectStore) -> None:
    data = some_bytes(3 * PART_SIZE)
    upload = begin(store, data)
    send_parts(store, upload, data, 2)
    for number, size in ((1, PART_SIZE + 1), (3, 7)):
        store.client.upload_part(
            Bucket=store.settings.bucket,
            Key=upload.key,
            UploadId=upload.store_id,
            PartNumber=number,
            Body=b"x" * size,
        )
    with pytest.raises(UploadIncomplete) as caught:
        store.complete(upload)
    assert caught.value.part_numbers == [1, 3]
    send_parts(store, upload, data, 1, 3)
    store.complete(upload)


def test_one_part_of_the_wrong_size(s3_settings: MakeSettings) -> None:
    with opened(s3_settings(sha256_on_put=False, conditional_writes=False)) as store:
        upload = begin(store, b"right")
        store.client.put_object(Bucket=store.settings.bucket, Key=upload.key, Body=b"longer")
        with pytest.raises(UploadIncomplete) as caught:
            store.complete(upload)
        assert caught.value.part_numbers == [1]


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("size", [10, PART_SIZE + 10])
def test_an_older_store_is_asked_for_less(
    s3_settings: MakeSettings, size: int, in_place: bool
) -> None:
    settings = s3_settings(part_size=PART_SIZE, conditional_writes=False, sha256_on_put=False)
    with opened(settings) as store:
        data = some_bytes(size)
        upload = begin(store, data, in_place=in_place)
        assert store.part_target(upload, 1, expires_in_s=60).headers == {}
        send_parts(store, upload, data)
        send_parts(store, upload, data, 1)
        store.complete(upload)
        store.publish(upload)
        assert read_all(store, upload.digest) == data
        store.put(digest_of(b"x"), b"x")
        store.put(digest_of(b"x"), b"x")
        store.delete([upload.digest])
        assert set(listed(store)) == {digest_of(b"x")}


def test_put_refuses_what_has_another_digest(store: S3ObjectStore) -> None:
    with pytest.raises(StoreError):
        store.put(digest_of(b"right"), b"wrong")
    assert listed(store) == {}


def test_long_objects_are_copied_in_parts(s3_settings: MakeSettings) -> None:
    settings = s3_settings(part_size=PART_SIZE, copy_part_size=PART_SIZE)
    with opened(settings) as store:
        data = some_bytes(3 * PART_SIZE + 1)
        upload = begin(store, data)
        send_parts(store, upload, data)
        store.complete(upload)
        store.publish(upload)
        assert read_all(store, upload.digest) == data
        assert list(store.list_uploads()) == []


def test_many_are_deleted_in_batches(store: S3ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "DELETE_BATCH", 2)
    bodies = [bytes([number]) for number in range(5)]
    for body in bodies:
        store.put(digest_of(body), body)
    store.delete(digest_of(body) for body in bodies[:-1])
    assert set(listed(store)) == {digest_of(bodies[-1])}


def test_ensure_bucket_twice(store: S3ObjectStore) -> None:
    store.ensure_bucket()
    store.check()


def test_no_bucket(settings: S3Settings) -> None:
    elsewhere = replace(settings, bucket="no-such-bucket-here")
    with opened(elsewhere) as store, pytest.raises(StoreUnavailable):
        store.check()


def test_wrong_keys(settings: S3Settings) -> None:
    with opened(replace(settings, secret_access_key="wrong")) as store:
        with pytest.raises(StoreUnavailable):
            store.check()
        with pytest.raises(StoreError) as caught:
            store.put(digest_of(b"x"), b"x")
        assert not isinstance(caught.value, StoreUnavailable)


# Stores that fail


def test_nobody_answers(settings: S3Settings) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with opened(replace(settings, endpoint_url=url, max_attempts=1)) as store:
            for call in (store.check, lambda: store.stat(digest_of(b"x"))):
                with pytest.raises(StoreUnavailable):
                    call()


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (503, "SlowDown", StoreUnavailable),
        (500, "InternalError", StoreUnavailable),
        (502, "", StoreUnavailable),
        (429, "TooManyRequests", StoreUnavailable),
        (507, "XMinioStorageFull", StoreFull),
        (403, "QuotaExceeded", StoreFull),
        (404, "NoSuchKey", ObjectNotFound),
        (404, "NoSuchBucket", StoreUnavailable),
        (403, "AccessDenied", StoreError),
    ],
)
def test_answers_become_the_errors_they_mean(
    settings: S3Settings, status: int, code: str, expected: type[StoreError]
) -> None:
    body = f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode() if code else b""
    with (
        answering(status, body) as url,
        opened(replace(settings, endpoint_url=url, max_attempts=1)) as store,
    ):
        with pytest.raises(StoreError) as caught:
            store.put(digest_of(b"x"), b"x")
        assert type(caught.value) is expected


def test_a_store_that_ignores_ranges_is_not_believed(settings: S3Settings) -> None:
    with (
        answering(200, b"the whole object") as url,
        opened(replace(settings, endpoint_url=url)) as store,
        pytest.raises(StoreError, match="ignores ranges"),
    ):
        list(store.read(digest_of(b"x"), 4, 9))


def test_a_broken_stream_goes_on_where_it_broke(settings: S3Settings) -> None:
    data = some_bytes(3 * MIB)
    with opened(settings) as store:
        store.put(digest_of(data), data)
    with (
        cutting_connections(settings.endpoint_url, after=800_000, times=3) as (url, cut),
        opened(replace(settings, endpoint_url=url)) as store,
    ):
        assert b"".join(store.read(digest_of(data), 1, len(data))) == data[1:]
        assert len(cut) == 3


def test_a_stream_that_always_breaks(settings: S3Settings, monkeypatch) -> None:
    monkeypatch.setattr("storage.s3_read.MAX_BREAKS", 2)
    data = some_bytes(MIB)
    with opened(settings) as store:
        store.put(digest_of(data), data)
    with (
        cutting_connections(settings.endpoint_url, after=100, times=100) as (url, _),
        opened(replace(settings, endpoint_url=url, max_attempts=1)) as store,
        pytest.raises(StoreUnavailable),
    ):
        list(store.read(digest_of(data), 0, len(data)))


def _at(store: S3ObjectStore, digest: str) -> dict[str, str]:
    key = f"objects/sha256/{digest[7:9]}/{digest[9:11]}/{digest[7:]}"
    return {"Bucket": store.settings.bucket, "Key": key}


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """Run an HTTP server that has one answer to everything."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = answer  # noqa: N815 - http.server's names

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@contextmanager
def cutting_connections(target: str, *, after: int, times: int) -> Iterator[tuple[str, list[int]]]:
    """Forward connections to ``target``, and cut the first ones after some bytes of the answer."""
    where = urlsplit(target)
    cut: list[int] = []

    def forward(client: socket.socket) -> None:
        with client, socket.create_connection((where.hostname, where.port)) as origin:
            pump = threading.Thread(target=_pump, args=(client, origin), daemon=True)
            pump.start()
            if len(cut) >= times:
                _pump(origin, client)
            elif _pump(origin, client, limit=after):
                cut.append(after)
            for side in (client, origin):
                _shut(side)
            pump.join()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener, forward), daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", cut
        _shut(listener)


def _accept(listener: socket.socket, handle: Callable[[socket.socket], None]) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=handle, args=(client,), daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket, *, limit: int = 2**62) -> bool:
    """Move bytes until a side closes (``False``) or ``limit`` is reached (``True``)."""
    try:
        while limit > 0:
            piece = source.recv(min(limit, 65536))
            if not piece:
                return False
            sink.sendall(piece)
            limit -= len(piece)
    except OSError:
        return False
    return True


def _shut(side: socket.socket) -> None:
    try:
        side.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
