"""A store against a dict: any sequence of allowed calls leaves what the dict says."""

import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ai_model_format.digest import Digest, digest_of
from storage.interface import ObjectNotFound, ObjectStore, Upload, UploadIncomplete
from storage.local import LocalObjectStore, LocalSettings
from storage.s3 import S3ObjectStore
from tests.services.seaweedfs import S3Server, fresh_bucket
from tests.storage.contract import part_of, read_all, send_part

CONTENTS = [b"a", b"bcdefgh", b"0123456789", b"x" * 31]
BY_DIGEST = {digest_of(data): data for data in CONTENTS}


class StoreAgainstDict(RuleBasedStateMachine):
    """Keeps the caller's side of the contract: uploads in place only where they are allowed."""

    open_store: Callable[[], ObjectStore]
    uploads = Bundle("uploads")

    def __init__(self) -> None:
        super().__init__()
        self.store = self.open_store()
        self.published: dict[Digest, bytes] = {}
        self.sent: dict[str, set[int]] = {}
        self.completed: set[str] = set()
        self.in_place: dict[Digest, Upload] = {}

    def _is_free(self, digest: Digest) -> bool:
        return digest not in self.in_place

    @rule(target=uploads, data=st.sampled_from(CONTENTS), in_place=st.booleans())
    def begin(self, data: bytes, in_place: bool) -> object:
        digest = digest_of(data)
        if not self._is_free(digest) or (in_place and digest in self.published):
            return multiple()
        upload = self.store.begin_upload(digest, len(data), in_place=in_place)
        self.sent[upload.key] = set()
        if upload.in_place:
            self.in_place[digest] = upload
        return upload

    @rule(upload=uploads, pick=st.integers(0, 10))
    def send(self, upload: Upload, pick: int) -> None:
        number = pick % upload.part_count + 1
        if upload.key in self.completed:
            return
        if self.sent[upload.key] and self._takes_parts_once(upload):
            return
        send_part(self.store, upload, number, part_of(upload, number, BY_DIGEST[upload.digest]))
        self.sent[upload.key].add(number)

    def _takes_parts_once(self, upload: Upload) -> bool:
        return self.store.part_target(upload, 1, expires_in_s=60) is not None

    @rule(upload=uploads)
    def parts(self, upload: Upload) -> None:
        assert set(self.store.parts_stored(upload)) == self.sent[upload.key]

    @rule(upload=uploads)
    def complete(self, upload: Upload) -> None:
        missing = [n for n in range(1, upload.part_count + 1) if n not in self.sent[upload.key]]
        if not missing:
            self.store.complete(upload)
            self.completed.add(upload.key)
            data = b"".join(self.store.read_upload(upload, 0, upload.size))
            assert data == BY_DIGEST[upload.digest]
            return
        with pytest.raises(UploadIncomplete) as caught:
            self.store.complete(upload)
        assert caught.value.part_numbers == missing

    @rule(target=uploads, upload=consumes(uploads))
    def publish(self, upload: Upload) -> object:
        if upload.key not in self.completed:
            return upload
        self.store.publish(upload)
        self.store.publish(upload)
        self.published[upload.digest] = BY_DIGEST[upload.digest]
        self._forget(upload)
        return multiple()

    @rule(target=uploads, upload=consumes(uploads), by_key=st.booleans())
    def abort(self, upload: Upload, by_key: bool) -> object:
        if upload.in_place and by_key:
            return upload
        if by_key:
            self.store.abort_key(upload.key)
        else:
            self.store.abort(upload)
        self._forget(upload)
        return multiple()

    def _forget(self, upload: Upload) -> None:
        self.completed.discard(upload.key)
        if upload.in_place:
            del self.in_place[upload.digest]

    @rule(data=st.sampled_from(CONTENTS))
    def put(self, data: bytes) -> None:
        if self._is_free(digest_of(data)):
            self.store.put(digest_of(data), data)
            self.published[digest_of(data)] = data

    @rule(digests=st.lists(st.sampled_from(sorted(BY_DIGEST)), max_size=3))
    def delete(self, digests: list[Digest]) -> None:
        free = [digest for digest in digests if self._is_free(digest)]
        self.store.delete(free)
        for digest in free:
            self.published.pop(digest, None)

    @rule()
    def open_again(self) -> None:
        self.store = self.open_store()

    @precondition(lambda self: self.published)
    @rule(pick=st.integers(0, 10), start=st.integers(0, 31), end=st.integers(0, 31))
    def read(self, pick: int, start: int, end: int) -> None:
        digest, data = sorted(self.published.items())[pick % len(self.published)]
        start, end = sorted((start, end))
        if end <= len(data):
            assert b"".join(self.store.read(digest, start, end)) == data[start:end]
        elif start < end:
            with pytest.raises(ObjectNotFound):
                list(self.store.read(digest, start, end))

    @invariant()
    def holds_what_was_published(self) -> None:
        found = {each.digest: each.size for each in self.store.list()}
        gathering = set(self.in_place)
        assert found.keys() - gathering == self.published.keys() - gathering
        for digest in self.published:
            assert found[digest] == len(self.published[digest])
            assert read_all(self.store, digest) == self.published[digest]


def run(machine: type[StoreAgainstDict], *, examples: int, steps: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_a_directory(tmp_path: Path) -> None:
    class Local(StoreAgainstDict):
        def __init__(self) -> None:
            root = tmp_path / secrets.token_hex(8)
            self.open_store = lambda: LocalObjectStore(LocalSettings(root, part_size=10))
            super().__init__()

    run(Local, examples=40, steps=25)


def test_a_bucket(s3_server: S3Server) -> None:
    with fresh_bucket(s3_server) as bucket:
        stores: list[S3ObjectStore] = []

        class S3(StoreAgainstDict):
            def __init__(self) -> None:
                prefix = secrets.token_hex(8) + "/"
                store = S3ObjectStore(replace(bucket, prefix=prefix))
                stores.append(store)
                self.open_store = lambda: store
                super().__init__()

        run(S3, examples=8, steps=15)
        for store in stores:
            store.close()
