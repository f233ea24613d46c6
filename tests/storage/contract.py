"""What ``storage/interface.py`` promises, as tests that every backend inherits.

A new backend gives the fixtures ``open_store`` and ``part_size``.
"""

import functools
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from ai_model_format.digest import EMPTY_DIGEST, Digest, digest_of
from ai_model_format.names import InvalidName
from storage.interface import (
    ObjectNotFound,
    ObjectStore,
    StoredObject,
    Upload,
    UploadIncomplete,
)

MIB = 1024 * 1024
MISSING = digest_of(b"not in any store")


@functools.cache
def http() -> httpx.Client:
    """Return one client for all tests, as making one takes longer than most requests."""
    return httpx.Client(timeout=60)


def some_bytes(size: int) -> bytes:
    """Return bytes that no other test has."""
    return random.randbytes(size)


def send_part(store: ObjectStore, upload: Upload, number: int, data: bytes) -> None:
    """Send a part the way a client does: by a signed request, else through the service."""
    target = store.part_target(upload, number, expires_in_s=60)
    if target is None:
        store.write_part(upload, number, [data[: len(data) // 2], data[len(data) // 2 :]])
        return
    answer = http().put(target.url, content=data, headers=target.headers)
    assert answer.status_code == 200, answer.text


def part_of(upload: Upload, number: int, data: bytes) -> bytes:
    start, end = upload.part_range(number)
    return data[start:end]


def send_parts(store: ObjectStore, upload: Upload, data: bytes, *numbers: int) -> None:
    """Send the parts named, all in order where none is."""
    for number in numbers or range(1, upload.part_count + 1):
        send_part(store, upload, number, part_of(upload, number, data))


def store_bytes(store: ObjectStore, data: bytes, *, in_place: bool = False) -> Digest:
    """Take ``data`` through a whole upload."""
    upload = store.begin_upload(digest_of(data), len(data), in_place=in_place)
    send_parts(store, upload, data)
    store.complete(upload)
    store.publish(upload)
    return upload.digest


def read_all(store: ObjectStore, digest: Digest) -> bytes:
    return b"".join(store.read(digest, 0, store.stat(digest).size))


def listed(store: ObjectStore) -> dict[Digest, StoredObject]:
    return {found.digest: found for found in store.list()}


def is_recent(moment: datetime) -> bool:
    return abs(datetime.now(UTC) - moment) < timedelta(hours=1)


class ObjectStoreContract:
    """Inherit it, name the class ``Test...`` and give the fixtures."""

    @pytest.fixture
    def open_store(self) -> Iterator[Callable[[], ObjectStore]]:
        """Yield a function that opens the same place again, as another process would."""
        raise NotImplementedError

    @pytest.fixture
    def part_size(self) -> int:
        """Return the part size of the store."""
        raise NotImplementedError

    @pytest.fixture
    def store(self, open_store: Callable[[], ObjectStore]) -> ObjectStore:
        return open_store()

    @pytest.fixture
    def data(self, part_size: int) -> bytes:
        """Return bytes of three parts, the last a short one."""
        return some_bytes(2 * part_size + 10)

    def wait_for_a_later_date(self) -> None:
        """Wait until the store would date a part differently."""

    # Objects

    def test_put_then_stat_and_read(self, store: ObjectStore) -> None:
        data = some_bytes(1000)
        store.put(digest_of(data), data)
        found = store.stat(digest_of(data))
        assert (found.digest, found.size) == (digest_of(data), 1000)
        assert is_recent(found.modified_at)
        assert read_all(store, found.digest) == data

    def test_put_twice(self, store: ObjectStore) -> None:
        data = some_bytes(10)
        store.put(digest_of(data), data)
        store.put(digest_of(data), data)
        assert read_all(store, digest_of(data)) == data

    def test_put_replaces_other_bytes(self, store: ObjectStore, data: bytes) -> None:
        """An upload in place may have left them there, before anybody looked at them."""
        upload = store.begin_upload(digest_of(data), len(data), in_place=True)
        send_parts(store, upload, some_bytes(len(data)))
        store.complete(upload)
        store.put(digest_of(data), data)
        assert read_all(store, digest_of(data)) == data
        store.abort_key(upload.key)
        assert read_all(store, digest_of(data)) == data

    def test_put_nothing(self, store: ObjectStore) -> None:
        store.put(EMPTY_DIGEST, b"")
        assert store.stat(EMPTY_DIGEST).size == 0
        assert list(store.read(EMPTY_DIGEST, 0, 0)) == []

    def test_read_yields_pieces_of_at_most_1_mib(self, store: ObjectStore) -> None:
        data = some_bytes(3 * MIB + 17)
        store.put(digest_of(data), data)
        pieces = list(store.read(digest_of(data), 5, len(data) - 1))
        assert b"".join(pieces) == data[5:-1]
        assert all(0 < len(piece) <= MIB for piece in pieces)

    @pytest.mark.parametrize(("start", "end"), [(0, 1), (99, 100), (40, 60), (0, 100), (30, 30)])
    def test_read_a_range(self, store: ObjectStore, start: int, end: int) -> None:
        data = bytes(range(100))
        store.put(digest_of(data), data)
        assert b"".join(store.read(digest_of(data), start, end)) == data[start:end]

    @pytest.mark.parametrize(("start", "end"), [(0, 101), (100, 101), (500, 600)])
    def test_read_past_the_end(self, store: ObjectStore, start: int, end: int) -> None:
        data = bytes(range(100))
        store.put(digest_of(data), data)
        with pytest.raises(ObjectNotFound):
            list(store.read(digest_of(data), start, end))

    def test_what_is_not_there(self, store: ObjectStore) -> None:
        with pytest.raises(ObjectNotFound):
            store.stat(MISSING)
        with pytest.raises(ObjectNotFound):
            list(store.read(MISSING, 0, 1))

    def test_a_stream_may_be_left_early(self, store: ObjectStore) -> None:
        data = some_bytes(2 * MIB)
        store.put(digest_of(data), data)
        stream = store.read(digest_of(data), 0, len(data))
        next(stream)
        stream.close()  # type: ignore[attr-defined]
        assert read_all(store, digest_of(data)) == data

    def test_delete(self, store: ObjectStore) -> None:
        kept, gone = some_bytes(10), some_bytes(10)
        store.put(digest_of(kept), kept)
        store.put(digest_of(gone), gone)
        store.delete([digest_of(gone), MISSING])
        store.delete(iter([digest_of(gone)]))
        store.delete([])
        assert set(listed(store)) == {digest_of(kept)}

    def test_list_yields_objects_and_nothing_else(self, store: ObjectStore, data: bytes) -> None:
        assert listed(store) == {}
        small = some_bytes(10)
        store.put(digest_of(small), small)
        whole = store_bytes(store, data)
        other = some_bytes(len(data))
        send_parts(store, store.begin_upload(digest_of(other), len(other), in_place=True), other, 1)
        found = listed(store)
        assert {each.digest: each.size for each in found.values()} == {
            digest_of(small): 10,
            whole: len(data),
        }
        assert all(is_recent(each.modified_at) for each in found.values())

    @pytest.mark.parametrize("name", ["", "sha256:..", "sha256:../../../etc", "md5:" + "a" * 64])
    def test_only_a_digest_becomes_a_key(self, store: ObjectStore, name: str) -> None:
        with pytest.raises(InvalidName):
            store.stat(name)
        with pytest.raises(InvalidName):
            store.put(name, b"x")

    def test_check(self, store: ObjectStore) -> None:
        store.check()

    # Uploads

    @pytest.mark.parametrize("in_place", [True, False])
    def test_parts_in_any_order(self, store: ObjectStore, data: bytes, in_place: bool) -> None:
        upload = store.begin_upload(digest_of(data), len(data), in_place=in_place)
        assert store.parts_stored(upload) == {}
        send_parts(store, upload, data, 3, 1, 2)
        sizes = {n: len(part_of(upload, n, data)) for n in (1, 2, 3)}
        assert store.parts_stored(upload) == sizes
        with pytest.raises(ObjectNotFound):
            store.stat(upload.digest)
        store.complete(upload)
        assert b"".join(store.read_upload(upload, 0, len(data))) == data
        assert b"".join(store.read_upload(upload, 7, 9)) == data[7:9]
        assert store.parts_stored(upload) == sizes
        store.publish(upload)
        assert read_all(store, upload.digest) == data

    @pytest.mark.parametrize("in_place", [True, False])
    @pytest.mark.parametrize("size", [1, 1000])
    def test_an_upload_of_one_part(self, store: ObjectStore, size: int, in_place: bool) -> None:
        data = some_bytes(size)
        upload = store.begin_upload(digest_of(data), size, in_place=in_place)
        assert upload.part_count == 1
        with pytest.raises(UploadIncomplete) as caught:
            store.complete(upload)
        assert caught.value.part_numbers == [1]
        send_parts(store, upload, data)
        assert store.parts_stored(upload) == {1: size}
        store.complete(upload)
        store.complete(upload)
        assert b"".join(store.read_upload(upload, 0, size)) == data
        store.publish(upload)
        store.publish(upload)
        assert read_all(store, upload.digest) == data
        assert list(store.list_uploads()) == []

    def test_exactly_one_part(self, store: ObjectStore, part_size: int) -> None:
        data = some_bytes(part_size)
        assert read_all(store, store_bytes(store, data)) == data

    def test_an_upload_of_nothing(self, store: ObjectStore) -> None:
        with pytest.raises(ValueError, match="at least 1 byte"):
            store.begin_upload(EMPTY_DIGEST, 0, in_place=False)

    def test_a_part_sent_again_replaces_the_first(self, store: ObjectStore, data: bytes) -> None:
        upload = store.begin_upload(digest_of(data), len(data), in_place=False)
        send_part(store, upload, 1, some_bytes(upload.part_size))
        self.wait_for_a_later_date()
        send_parts(store, upload, data, 1, 2, 3, 3)
        assert sorted(store.parts_stored(upload)) == [1, 2, 3]
        store.complete(upload)
        assert b"".join(store.read_upload(upload, 0, len(data))) == data

    def test_a_part_that_is_none(self, store: ObjectStore, data: bytes) -> None:
        upload = store.begin_upload(digest_of(data), len(data), in_place=False)
        for number in (0, 4, -1):
            with pytest.raises(UploadIncomplete):
                send_part(store, upload, number, b"x")

    @pytest.mark.parametrize("in_place", [True, False])
    def test_another_process_goes_on(
        self, open_store: Callable[[], ObjectStore], data: bytes, in_place: bool
    ) -> None:
        first = open_store()
        begun = first.begin_upload(digest_of(data), len(data), in_place=in_place)
        send_parts(first, begun, data, 3)

        second, upload = open_store(), Upload(**asdict(begun))
        stored = second.parts_stored(upload)
        assert sorted(stored) == [3]
        with pytest.raises(UploadIncomplete) as caught:
            second.complete(upload)
        assert caught.value.part_numbers == [1, 2]
        send_parts(second, upload, data, 1, 2)
        second.complete(upload)

        third = open_store()
        third.complete(upload)
        third.publish(upload)
        first.publish(begun)
        assert read_all(open_store(), upload.digest) == data

    def test_read_upload_before_it_is_complete(self, store: ObjectStore, data: bytes) -> None:
        upload = store.begin_upload(digest_of(data), len(data), in_place=False)
        send_parts(store, upload, data, 1)
        with pytest.raises(ObjectNotFound):
            list(store.read_upload(upload, 0, 1))

    def test_publish_before_it_is_complete(self, store: ObjectStore, data: bytes) -> None:
        upload = store.begin_upload(digest_of(data), len(data), in_place=False)
        send_parts(store, upload, data, 1)
        with pytest.raises(ObjectNotFound):
            store.publish(upload)
        assert listed(store) == {}

    def test_publish_replaces_what_is_there(self, store: ObjectStore, data: bytes) -> None:
        wrong = some_bytes(len(data))
        bad = store.begin_upload(digest_of(data), len(data), in_place=False)
        send_parts(store, bad, wrong)
        store.complete(bad)
        store.publish(bad)
        assert read_all(store, digest_of(data)) == wrong
        store_bytes(store, data)
        assert read_all(store, digest_of(data)) == data

    def test_in_place_leaves_alone_what_is_there(self, store: ObjectStore, data: bytes) -> None:
        digest = store_bytes(store, data)
        upload = store.begin_upload(digest, len(data), in_place=True)
        send_parts(store, upload, some_bytes(len(data)))
        store.complete(upload)
        assert read_all(store, digest) == data
        store.abort_key(upload.key)
        assert read_all(store, digest) == data

    def test_uploads_of_one_digest_at_once(
        self, open_store: Callable[[], ObjectStore], data: bytes
    ) -> None:
        def push(number: int) -> Digest:
            return store_bytes(open_store(), data, in_place=number == 0)

        with ThreadPoolExecutor(4) as pool:
            assert set(pool.map(push, range(4))) == {digest_of(data)}
        store = open_store()
        assert read_all(store, digest_of(data)) == data
        assert list(store.list_uploads()) == []

    # Ends of uploads

    @pytest.mark.parametrize("completed", [True, False])
    @pytest.mark.parametrize("in_place", [True, False])
    def test_abort(self, store: ObjectStore, data: bytes, in_place: bool, completed: bool) -> None:
        upload = store.begin_upload(digest_of(data), len(data), in_place=in_place)
        send_parts(store, upload, data)
        if completed:
            store.complete(upload)
        store.abort(upload)
        store.abort(upload)
        for call in (store.parts_stored, store.complete, store.publish):
            with pytest.raises(ObjectNotFound):
                call(upload)
        with pytest.raises(ObjectNotFound):
            list(store.read_upload(upload, 0, 1))
        assert (listed(store), list(store.list_uploads())) == ({}, [])

    def test_abort_an_upload_of_one_part(self, store: ObjectStore) -> None:
        upload = store.begin_upload(digest_of(b"abc"), 3, in_place=True)
        send_parts(store, upload, b"abc")
        store.abort(upload)
        with pytest.raises((ObjectNotFound, UploadIncomplete)):
            store.complete(upload)
        assert (listed(store), list(store.list_uploads())) == ({}, [])

    @pytest.mark.parametrize("in_place", [True, False])
    def test_abandon(self, store: ObjectStore, data: bytes, in_place: bool) -> None:
        upload = store.begin_upload(digest_of(data), len(data), in_place=in_place)
        send_parts(store, upload, data, 1)
        store_bytes(store, data)
        assert [key for key, _ in store.list_uploads()] == [upload.key]
        store.abandon(upload)
        store.abandon(upload)
        assert read_all(store, upload.digest) == data
        assert list(store.list_uploads()) == []

    @pytest.mark.parametrize("in_place", [True, False])
    def test_uploads_under_way_are_listed_and_dropped(
        self, store: ObjectStore, data: bytes, in_place: bool
    ) -> None:
        upload = store.begin_upload(digest_of(data), len(data), in_place=in_place)
        send_parts(store, upload, data, 1)
        ((key, begun_at),) = store.list_uploads()
        assert key == upload.key
        assert is_recent(begun_at)
        store.abort_key(key)
        store.abort_key(key)
        assert list(store.list_uploads()) == []
        with pytest.raises(ObjectNotFound):
            store.parts_stored(upload)

    def test_a_completed_upload_is_listed_until_published(
        self, store: ObjectStore, data: bytes
    ) -> None:
        upload = store.begin_upload(digest_of(data), len(data), in_place=False)
        send_parts(store, upload, data)
        store.complete(upload)
        assert [key for key, _ in store.list_uploads()] == [upload.key]
        store.publish(upload)
        assert list(store.list_uploads()) == []

    @pytest.mark.parametrize("in_place", [True, False])
    def test_abort_key_keeps_what_is_published(
        self, store: ObjectStore, data: bytes, in_place: bool
    ) -> None:
        upload = store.begin_upload(digest_of(data), len(data), in_place=in_place)
        send_parts(store, upload, data)
        store.complete(upload)
        store.publish(upload)
        store.abort_key(upload.key)
        assert read_all(store, upload.digest) == data
