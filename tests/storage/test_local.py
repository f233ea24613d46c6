"""The local store: the contract, and what only files can do wrong."""

import os
import random
import resource
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ai_model_format.digest import digest_of
from storage.interface import (
    ObjectNotFound,
    StoreFull,
    StoreUnavailable,
    Upload,
    UploadIncomplete,
)
from storage.local import LocalObjectStore, LocalSettings
from tests.storage.contract import (
    ObjectStoreContract,
    listed,
    part_of,
    read_all,
    send_parts,
    some_bytes,
    store_bytes,
)

PART_SIZE = 1000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


def open_local(root: Path) -> LocalObjectStore:
    return LocalObjectStore(LocalSettings(root, part_size=PART_SIZE))


class TestLocalObjectStore(ObjectStoreContract):
    @pytest.fixture
    def open_store(self, root: Path) -> Callable[[], LocalObjectStore]:
        return lambda: open_local(root)

    @pytest.fixture
    def part_size(self) -> int:
        return PART_SIZE


@pytest.fixture
def store(root: Path) -> LocalObjectStore:
    return open_local(root)


@pytest.fixture
def data() -> bytes:
    return some_bytes(3500)


@pytest.fixture
def upload(store: LocalObjectStore, data: bytes) -> Upload:
    return store.begin_upload(digest_of(data), len(data), in_place=True)


def files_in(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def test_the_service_serves_and_takes_bytes(store: LocalObjectStore, upload: Upload) -> None:
    assert store.object_url(upload.digest, expires_in_s=60) is None
    assert store.part_target(upload, 1, expires_in_s=60) is None


def test_local_path_is_the_object_itself(store: LocalObjectStore, data: bytes) -> None:
    assert store.local_path(store_bytes(store, data)).read_bytes() == data
    with pytest.raises(ObjectNotFound):
        store.local_path(digest_of(b"missing"))


@pytest.mark.parametrize("size", [0, 999, 1001, 5000])
def test_a_part_of_the_wrong_size_does_not_count(
    store: LocalObjectStore, upload: Upload, data: bytes, size: int
) -> None:
    send_parts(store, upload, data)
    with pytest.raises(UploadIncomplete) as caught:
        store.write_part(upload, 2, [b"x" * size])
    assert caught.value.part_numbers == [2]
    assert sorted(store.parts_stored(upload)) == [1, 3, 4]
    send_parts(store, upload, data, 2)
    store.complete(upload)
    assert b"".join(store.read_upload(upload, 0, len(data))) == data


def test_an_interrupted_part_does_not_count(
    store: LocalObjectStore, upload: Upload, data: bytes
) -> None:
    def broken() -> Iterator[bytes]:
        yield part_of(upload, 2, data)[:500]
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        store.write_part(upload, 2, broken())
    assert store.parts_stored(upload) == {}


@pytest.mark.parametrize("published", [True, False])
def test_a_slow_writer_cannot_change_what_was_completed(
    store: LocalObjectStore, root: Path, upload: Upload, data: bytes, published: bool
) -> None:
    other = open_local(root)

    def stalls_while_another_completes() -> Iterator[bytes]:
        yield part_of(upload, 2, data)[:10]
        send_parts(other, upload, data)
        other.complete(upload)
        if published:
            other.publish(upload)
        yield b"x" * 990

    with pytest.raises(ObjectNotFound):
        store.write_part(upload, 2, stalls_while_another_completes())
    store.publish(upload)
    assert read_all(store, upload.digest) == data


def test_no_part_is_taken_after_completion(
    store: LocalObjectStore, upload: Upload, data: bytes
) -> None:
    send_parts(store, upload, data)
    store.complete(upload)
    with pytest.raises(ObjectNotFound):
        store.write_part(upload, 1, [data[:1000]])


def test_completing_and_publishing_copy_nothing(
    store: LocalObjectStore, root: Path, upload: Upload, data: bytes
) -> None:
    inode = (root / upload.key / "data").stat().st_ino
    send_parts(store, upload, data)
    store.complete(upload)
    store.publish(upload)
    assert store.local_path(upload.digest).stat().st_ino == inode
    assert files_in(root) == [store.local_path(upload.digest)]


def test_room_is_reserved_when_the_upload_begins(store: LocalObjectStore, root: Path) -> None:
    upload = store.begin_upload(digest_of(b"x"), 3_000_000, in_place=True)
    assert (root / upload.key / "data").stat().st_blocks * 512 >= 3_000_000


def test_what_can_never_fit_is_refused_at_once(store: LocalObjectStore, root: Path) -> None:
    disk = os.statvfs(root)
    with pytest.raises(StoreFull):
        store.begin_upload(digest_of(b"x"), disk.f_blocks * disk.f_frsize, in_place=True)
    assert files_in(root) == []


def test_some_of_the_disk_is_left_alone(root: Path) -> None:
    greedy = LocalObjectStore(LocalSettings(root, keep_free=2**62))
    with pytest.raises(StoreFull):
        greedy.begin_upload(digest_of(b"x"), 1, in_place=True)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Have the kernel refuse longer files, as a full disk or a quota does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_fills_up_leaves_nothing_behind(store: LocalObjectStore, root: Path) -> None:
    data = some_bytes(200_000)
    with files_of_at_most(100_000):
        with pytest.raises(StoreFull):
            store.put(digest_of(data), data)
        with pytest.raises(StoreFull):
            store.begin_upload(digest_of(data), len(data), in_place=True)
    assert files_in(root) == []
    assert (listed(store), list(store.list_uploads())) == ({}, [])


def test_a_store_that_went_away(store: LocalObjectStore, root: Path) -> None:
    (root / "uploads").rmdir()
    with pytest.raises(StoreUnavailable):
        store.check()


@pytest.mark.parametrize(
    "key", ["uploads/../objects", "objects", "uploads/", "/etc", "uploads/a/b"]
)
def test_only_an_upload_key_becomes_a_path(store: LocalObjectStore, key: str) -> None:
    with pytest.raises(ObjectNotFound):
        store.abort_key(key)


WRITER = """
    import random, sys
    from pathlib import Path
    from ai_model_format.digest import digest_of
    from storage.local import LocalObjectStore, LocalSettings

    store = LocalObjectStore(LocalSettings(Path(sys.argv[1]), part_size=50_000))
    print("ready", flush=True)
    while True:
        data = random.randbytes(random.randrange(1, 400_000))
        digest = digest_of(data)
        store.put(digest_of(data[:1000]), data[:1000])
        upload = store.begin_upload(digest, len(data), in_place=True)
        print(upload.key, upload.size, flush=True)
        for number in range(1, upload.part_count + 1):
            start, end = upload.part_range(number)
            store.write_part(upload, number, [data[start:end]])
        store.complete(upload)
        store.publish(upload)
        print("published", digest, flush=True)
"""


def run_and_kill(root: Path, after_s: float) -> list[str]:
    """Run a writer, kill it, and return the lines it had printed."""
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), str(root)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        time.sleep(after_s)
        process.send_signal(signal.SIGKILL)
        return process.stdout.read().splitlines()


def test_killed_at_any_moment_every_object_is_whole(root: Path) -> None:
    published: list[str] = []
    for _ in range(6):
        lines = run_and_kill(root, random.uniform(0.05, 0.3))
        published += [line.split()[1] for line in lines if line.startswith("published")]
    store = open_local(root)
    found = listed(store)
    assert published
    assert set(published) <= set(found)
    for digest in found:
        assert digest_of(read_all(store, digest)) == digest
    for key, _ in list(store.list_uploads()):
        store.abort_key(key)
    assert len(files_in(root)) == len(found)
