"""Objects in a local directory, for one machine and for tests.

An upload is one file of its final size: parts are written at their offsets, each
made durable before its marker says that it is there, so that completing and
publishing copy nothing: they rename. A process may be killed at any moment and
another go on; nothing half written ever stands under an object's name.

::

    objects/sha256/ab/cd/<hex>   an object
    uploads/<random>/begun       its time is when the upload was begun
    uploads/<random>/data        takes parts
    uploads/<random>/parts/<n>   part n is on the disk
    uploads/<random>/complete    was data; takes parts no more
    uploads/<random>             a file: a small object on its way
"""

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from ai_model_format.digest import Digest
from storage.durable import (
    locked,
    opened,
    reserve,
    store_errors,
    sync_folder,
    sync_folders,
    write_at,
)
from storage.interface import (
    ObjectNotFound,
    SignedRequest,
    StoredObject,
    StoreFull,
    StoreUnavailable,
    Upload,
    UploadIncomplete,
)
from storage.keys import is_upload_key, new_upload_key, object_key, parse_object_key
from storage.parts import MIB, plan_part_size
from storage.settings import LocalSettings

__all__ = ["LocalObjectStore", "LocalSettings"]

PIECE_SIZE = MIB


class LocalObjectStore:
    """An ``ObjectStore`` in a directory that one machine's processes share."""

    def __init__(self, settings: LocalSettings) -> None:
        self._settings = settings
        self._root = settings.root.absolute()
        self._uploads = self._root / "uploads"
        with store_errors():
            self._uploads.mkdir(parents=True, exist_ok=True)
            (self._root / "objects").mkdir(exist_ok=True)
            sync_folder(self._root)

    def local_path(self, digest: Digest) -> Path:
        """Return the file of an object, to serve it by ``sendfile`` and the like.

        Raises:
            ObjectNotFound: it is not in the store.
        """
        path = self._object_path(digest)
        if not path.is_file():
            raise ObjectNotFound(digest)
        return path

    def stat(self, digest: Digest) -> StoredObject:
        """See ``ObjectStore.stat``."""
        with store_errors():
            found = self._object_path(digest).stat()
        return StoredObject(digest, found.st_size, _time(found))

    def read(self, digest: Digest, start: int, end: int) -> Iterator[bytes]:
        """See ``ObjectStore.read``; errors rise with the first piece."""
        return _read(self._object_path(digest), start, end)

    def put(self, digest: Digest, data: bytes) -> None:
        """See ``ObjectStore.put``."""
        temporary = self._root / new_upload_key()
        with store_errors():
            try:
                with opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as file:
                    write_at(file, data, 0)
                    os.fsync(file)
                self._move(temporary, digest)
            finally:
                temporary.unlink(missing_ok=True)

    def delete(self, digests: Iterable[Digest]) -> None:
        """See ``ObjectStore.delete``."""
        with store_errors():
            for digest in digests:
                self._object_path(digest).unlink(missing_ok=True)

    def list(self) -> Iterator[StoredObject]:
        """See ``ObjectStore.list``."""
        with store_errors():
            for path in self._root.glob("objects/sha256/??/??/*"):
                digest = parse_object_key(path.relative_to(self._root).as_posix())
                found = _stat_or_none(path)
                if digest and found:
                    yield StoredObject(digest, found.st_size, _time(found))

    def begin_upload(self, digest: Digest, size: int, *, in_place: bool) -> Upload:
        """See ``ObjectStore.begin_upload``; gathers elsewhere always, as renaming is free.

        Raises:
            StoreFull: the disk has no room for the whole object.
        """
        part_size = plan_part_size(size, preferred=self._settings.part_size)
        self._check_room(size)
        key = new_upload_key()
        try:
            with store_errors():
                self._make_upload(self._root / key, size)
        except BaseException:
            self.abort_key(key)
            raise
        return Upload(digest, size, part_size, key, store_id="", in_place=False)

    def parts_stored(self, upload: Upload) -> dict[int, int]:
        """See ``ObjectStore.parts_stored``."""
        with store_errors():
            numbers = sorted(int(marker.name) for marker in self._parts(upload).iterdir())
        return {number: _part_length(upload, number) for number in numbers}

    def part_target(
        self, upload: Upload, part_number: int, *, expires_in_s: int
    ) -> SignedRequest | None:
        """Return ``None``: the service takes parts."""
        return None

    def write_part(self, upload: Upload, part_number: int, data: Iterable[bytes]) -> None:
        """See ``ObjectStore.write_part``."""
        if not 1 <= part_number <= upload.part_count:
            raise UploadIncomplete([part_number])
        start, end = upload.part_range(part_number)
        path = self._upload_path(upload.key) / "data"
        marker = self._parts(upload) / str(part_number)
        with store_errors():
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            with store_errors():
                marker.unlink(missing_ok=True)
            offset = start
            for piece in data:
                if offset + len(piece) > end:
                    raise UploadIncomplete([part_number])
                with store_errors():
                    _write_unless_sealed(descriptor, path, piece, offset)
                offset += len(piece)
            if offset != end:
                raise UploadIncomplete([part_number])
            with store_errors():
                # A marker that is lost costs a part; one that lies would cost the upload.
                os.fdatasync(descriptor)
                marker.touch()
        finally:
            os.close(descriptor)

    def complete(self, upload: Upload) -> None:
        """See ``ObjectStore.complete``.

        Parts still arriving are cut off: what is verified next must not change any more.
        """
        folder = self._upload_path(upload.key)
        if (folder / "complete").exists():
            return
        with (
            store_errors(),
            opened(folder / "data", os.O_RDWR) as file,
            locked(file, fcntl.LOCK_EX),
        ):
            if (folder / "complete").exists():
                return
            stored = self.parts_stored(upload)
            missing = [n for n in range(1, upload.part_count + 1) if n not in stored]
            if missing:
                raise UploadIncomplete(missing)
            os.utime(file)
            os.fsync(file)
            (folder / "data").rename(folder / "complete")
            sync_folder(folder)

    def read_upload(self, upload: Upload, start: int, end: int) -> Iterator[bytes]:
        """See ``ObjectStore.read_upload``; errors rise with the first piece."""
        return _read(self._upload_path(upload.key) / "complete", start, end)

    def publish(self, upload: Upload) -> None:
        """See ``ObjectStore.publish``."""
        folder = self._upload_path(upload.key)
        with store_errors():
            try:
                self._move(folder / "complete", upload.digest)
            except FileNotFoundError:
                self.local_path(upload.digest)
                self._sync_object(upload.digest)
            shutil.rmtree(folder, ignore_errors=True)

    def abort(self, upload: Upload) -> None:
        """See ``ObjectStore.abort``."""
        self.abort_key(upload.key)

    def abandon(self, upload: Upload) -> None:
        """See ``ObjectStore.abandon``."""
        self.abort_key(upload.key)

    def list_uploads(self) -> Iterator[tuple[str, datetime]]:
        """See ``ObjectStore.list_uploads``."""
        with store_errors():
            for path in self._uploads.iterdir():
                found = _stat_or_none(path / "begun") or _stat_or_none(path)
                if found:
                    yield f"uploads/{path.name}", _time(found)

    def abort_key(self, key: str) -> None:
        """See ``ObjectStore.abort_key``."""
        path = self._upload_path(key)
        with store_errors():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def object_url(self, digest: Digest, *, expires_in_s: int) -> str | None:
        """Return ``None``: the service serves objects."""
        return None

    def check(self) -> None:
        """See ``ObjectStore.check``."""
        if not os.access(self._uploads, os.R_OK | os.W_OK | os.X_OK):
            raise StoreUnavailable(f"{self._uploads} cannot be written")

    def _object_path(self, digest: Digest) -> Path:
        return self._root / object_key(digest)

    def _upload_path(self, key: str) -> Path:
        if not is_upload_key(key):
            raise ObjectNotFound(f"not an upload: {key[:100]!r}")
        return self._root / key

    def _parts(self, upload: Upload) -> Path:
        return self._upload_path(upload.key) / "parts"

    def _check_room(self, size: int) -> None:
        with store_errors():
            disk = os.statvfs(self._uploads)
        free = disk.f_bavail * disk.f_frsize - self._settings.keep_free
        if free < size:
            raise StoreFull(f"{size} bytes do not fit into {max(free, 0)}")

    def _make_upload(self, folder: Path, size: int) -> None:
        (folder / "parts").mkdir(parents=True)
        (folder / "begun").touch()
        with opened(folder / "data", os.O_RDWR | os.O_CREAT | os.O_EXCL) as file:
            reserve(file, size)
            os.fsync(file)
        sync_folder(folder)
        sync_folder(self._uploads)

    def _move(self, source: Path, digest: Digest) -> None:
        target = self._object_path(digest)
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)
        self._sync_object(digest)

    def _sync_object(self, digest: Digest) -> None:
        # All folders above each time: another process may have made one and not synced it yet.
        sync_folders(self._object_path(digest).parent, self._root)


def _read(path: Path, start: int, end: int) -> Iterator[bytes]:
    with store_errors():
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if os.fstat(descriptor).st_size < end:
            raise ObjectNotFound(f"{path.name} ends before byte {end}")
        while start < end:
            with store_errors():
                piece = os.pread(descriptor, min(PIECE_SIZE, end - start), start)
            if not piece:
                raise ObjectNotFound(f"{path.name} ends before byte {end}")
            yield piece
            start += len(piece)
    finally:
        os.close(descriptor)


def _write_unless_sealed(descriptor: int, path: Path, piece: bytes, offset: int) -> None:
    # The lock is held for one piece only, so that a stalled client never holds up complete.
    with locked(descriptor, fcntl.LOCK_SH):
        path.stat()
        write_at(descriptor, piece, offset)


def _part_length(upload: Upload, part_number: int) -> int:
    start, end = upload.part_range(part_number)
    return end - start


def _stat_or_none(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _time(found: os.stat_result) -> datetime:
    return datetime.fromtimestamp(found.st_mtime, UTC)
