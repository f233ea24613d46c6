"""The contract of an object store. Backends keep it; ``tests/storage/contract.py`` checks it.

An object is immutable bytes named by their SHA-256. Bytes arrive by an
*upload*: parts go straight from the client to the store (S3) or through the
service (local directory), may be sent in any order, again, and by another
process, and become visible at once when the upload is completed.

The store does not judge content: that the bytes of an upload have the digest
they claim is for the caller to check (``read_upload``) before ``publish``.

Calls may be repeated unless said otherwise. ``StoreUnavailable`` is worth a
retry; every other error is final. Methods are safe to call from threads.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from ai_model_format.digest import Digest


class StoreError(Exception):
    """Base of what a store raises."""


class ObjectNotFound(StoreError):
    """No such object, or no such upload."""


class StoreUnavailable(StoreError):
    """The store does not answer, or says to come back later."""


class StoreFull(StoreError):
    """No room, or over a quota."""


class UploadIncomplete(StoreError):
    """Parts are missing or of the wrong size; ``part_numbers`` says which."""

    def __init__(self, part_numbers: list[int]) -> None:
        self.part_numbers = part_numbers
        super().__init__(f"parts missing or of the wrong size: {part_numbers[:20]}")


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object in the store.

    Attributes:
        digest: its name.
        size: bytes.
        modified_at: when it was stored, for collecting with a grace period.
    """

    digest: Digest
    size: int
    modified_at: datetime


@dataclass(frozen=True, slots=True)
class Upload:
    """An upload under way; plain values, so that any process can go on with it.

    Attributes:
        digest: the object it claims to become.
        size: bytes of the object.
        part_size: bytes of every part but the last; part n starts at ``(n - 1) * part_size``.
        key: where the parts gather.
        store_id: the store's own id of a multipart upload; empty where there is none.
        in_place: the parts gather at the object's own key, so that publishing copies nothing.
    """

    digest: Digest
    size: int
    part_size: int
    key: str
    store_id: str
    in_place: bool

    @property
    def part_count(self) -> int:
        """How many parts make the object."""
        return -(-self.size // self.part_size)

    def part_range(self, part_number: int) -> tuple[int, int]:
        """Return the half-open byte range of a part, counted from 1."""
        start = (part_number - 1) * self.part_size
        return start, min(start + self.part_size, self.size)


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """An HTTP request that anybody may send until it expires."""

    url: str
    headers: dict[str, str] = field(default_factory=dict)


class ObjectStore(Protocol):
    """Where objects live."""

    def stat(self, digest: Digest) -> StoredObject:
        """Return what is known of an object.

        Raises:
            ObjectNotFound: it is not in the store.
        """

    def read(self, digest: Digest, start: int, end: int) -> Iterator[bytes]:
        """Yield the bytes from ``start`` to ``end`` in pieces of at most 1 MiB.

        Raises:
            ObjectNotFound: it is not in the store, or ends before ``end``.
        """

    def put(self, digest: Digest, data: bytes) -> None:
        """Store a small object that the caller made and hashed, such as a manifest.

        Replaces what lies at its key, which may be an upload in place of other bytes.
        Durable on return.
        """

    def delete(self, digests: Iterable[Digest]) -> None:
        """Delete objects; one that is not there is no error."""

    def list(self) -> Iterator[StoredObject]:
        """Yield every object, in no order."""

    def begin_upload(self, digest: Digest, size: int, *, in_place: bool) -> Upload:
        """Open an upload of ``size`` bytes (at least 1).

        The caller allows ``in_place`` only while the object is not published and no other
        upload in place of the same digest is open; a store may gather elsewhere all the same.
        """

    def parts_stored(self, upload: Upload) -> dict[int, int]:
        """Return the size of each part that has arrived, by number.

        Raises:
            ObjectNotFound: the upload is not there any more.
        """

    def part_target(
        self, upload: Upload, part_number: int, *, expires_in_s: int
    ) -> SignedRequest | None:
        """Sign a PUT of one part; ``None`` where the service takes parts (``write_part``)."""

    def write_part(self, upload: Upload, part_number: int, data: Iterable[bytes]) -> None:
        """Take one part; an interrupted or over-long one does not count as stored.

        Raises:
            UploadIncomplete: ``data`` is shorter or longer than the part.
            NotImplementedError: parts go straight to the store.
        """

    def complete(self, upload: Upload) -> None:
        """Join the parts, so that ``read_upload`` works. Called again, does nothing.

        An upload in place must not be completed once the object was published another way.

        Raises:
            UploadIncomplete: parts are missing.
            ObjectNotFound: the upload is not there any more.
        """

    def read_upload(self, upload: Upload, start: int, end: int) -> Iterator[bytes]:
        """Yield bytes of a completed upload, in pieces of at most 1 MiB.

        Raises:
            ObjectNotFound: the upload is not completed.
        """

    def publish(self, upload: Upload) -> None:
        """Make a completed and verified upload the object, replacing what lies at its key.

        Durable on return; called again, does nothing.
        """

    def abort(self, upload: Upload) -> None:
        """Drop an upload and its bytes, at the object's key too if completed in place.

        The caller makes sure that the object is not published.
        """

    def abandon(self, upload: Upload) -> None:
        """Drop an upload that takes parts; whatever is at the object's key stays."""

    def list_uploads(self) -> Iterator[tuple[str, datetime]]:
        """Yield (key, when it was begun) of every upload that is not published, for collecting."""

    def abort_key(self, key: str) -> None:
        """Drop whatever gathers at an upload's key."""

    def object_url(self, digest: Digest, *, expires_in_s: int) -> str | None:
        """Sign a GET of an object; ``None`` where the service serves objects itself."""

    def check(self) -> None:
        """Do one cheap round trip.

        Raises:
            StoreUnavailable: the store cannot be used.
        """
