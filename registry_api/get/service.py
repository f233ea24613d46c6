"""Resolve a ref to a version, and say where its bytes lie."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from ai_model_format.byte_range import ByteRange
from ai_model_format.digest import Digest
from ai_model_format.wire import FileLayout, LayoutInfo, ObjectSource
from registry_api.catalog import queries, resolve
from registry_api.catalog.missing import ask_version, not_found
from registry_api.db.session import Driver, driver_of
from registry_api.db.tables import FileRow, VersionRow
from registry_api.errors import FileNotFound
from registry_api.get.edge import Edge, edge_url
from registry_api.parts import Parts
from registry_api.push.chunks import Run
from registry_api.push.queries import object_digests


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file and where its bytes lie.

    Attributes:
        path: in the version.
        size: bytes.
        sha256: of the whole.
        media_type: as in HTTP.
        runs: (digest of the object, offset, size), one behind the other.
        single_object: the digest of the object that is this file and nothing else.
    """

    path: str
    size: int
    sha256: Digest
    media_type: str
    runs: Sequence[tuple[Digest, int, int]]
    single_object: Digest | None


def find_version(session: Session, model_id: str, ref: str) -> VersionRow:
    """Return the version that a ref means.

    Raises:
        ModelNotFound: there is no such model.
        VersionNotFound: it has no such version.
    """
    version = queries.resolve(session, model_id, ref)
    if version is None:
        raise not_found(driver_of(session), model_id, ref)
    return version


def layout(
    driver: Driver,
    parts: Parts,
    model_id: str,
    ref: str,
    *,
    base_url: str,
    edge: Edge | None = None,
) -> LayoutInfo:
    """Return where a version's bytes lie, with URLs for its objects, at ``edge`` where given.

    Raises:
        ModelNotFound: there is no such model.
        VersionNotFound: it has no such version.
    """
    row = ask_version(driver, resolve.placed, model_id, ref)
    ids = list(dict.fromkeys(object_id for _, runs in row.files for object_id, _, _ in runs))
    places = {object_id: index for index, object_id in enumerate(ids)}
    found = {object_id: (digest, size) for object_id, digest, size in row.objects}
    expires_at = datetime.fromtimestamp(int(time.time()) + parts.settings.url_expires_s, UTC)

    def source(digest: Digest, size: int) -> ObjectSource:
        origin = object_url(parts, digest, base_url)
        if edge is None:
            return ObjectSource(digest=digest, size=size, url=origin)
        near = edge_url(edge, origin, expires_at)
        return ObjectSource(digest=digest, size=size, url=near, origin_url=origin)

    return LayoutInfo(
        model_id=model_id,
        version=row.name,
        manifest_digest=row.manifest_digest,
        objects=[source(*found[object_id]) for object_id in ids],
        files=[
            FileLayout(path=path, runs=[(places[o], start, size) for o, start, size in runs])
            for path, runs in row.files
        ],
        expires_at=expires_at,
    )


def layout_json(
    driver: Driver,
    parts: Parts,
    model_id: str,
    ref: str,
    *,
    base_url: str,
    edge: Edge | None = None,
) -> bytes:
    """Return a layout as the JSON that is answered; see ``layout``."""
    found = layout(driver, parts, model_id, ref, base_url=base_url, edge=edge)
    return found.model_dump_json().encode()


def object_url(parts: Parts, digest: Digest, base_url: str) -> str:
    """Return a URL that reads an object until it expires: the store's own, else ours."""
    lasts_s = parts.settings.url_expires_s
    url = parts.store.object_url(digest, expires_in_s=lasts_s)
    if url is not None:
        return url
    path = f"/v1/objects/{digest}"
    return base_url + parts.signer.sign("GET", path, expires_at=int(time.time()) + lasts_s)


def find_file(session: Session, version: VersionRow, path: str) -> StoredFile:
    """Return a file of a version.

    Raises:
        FileNotFound: the version has no such file.
    """
    row = session.scalar(
        select(FileRow).where(FileRow.version_id == version.id, FileRow.path == path)
    )
    if row is None:
        raise FileNotFound(f"version {version.name!r} has no file {path!r}")
    found = object_digests(session, [object_id for object_id, _, _ in _runs(row)])
    runs = [(found[object_id][0], start, size) for object_id, start, size in _runs(row)]
    return StoredFile(
        path=row.path,
        size=row.size,
        sha256=row.sha256,
        media_type=row.media_type,
        runs=runs,
        single_object=row.sha256 if [run[0] for run in runs] == [row.sha256] else None,
    )


def read_file(parts: Parts, file: StoredFile, wanted: ByteRange) -> Iterator[bytes]:
    """Yield bytes of a file, stitched from its runs, in pieces of at most 1 MiB."""
    position = 0
    for digest, start, size in file.runs:
        first = max(wanted.start - position, 0)
        last = min(wanted.end - position, size)
        if first < last:
            yield from parts.store.read(digest, start + first, start + last)
        position += size
        if position >= wanted.end:
            return


def _runs(row: FileRow) -> list[Run]:
    return [(object_id, start, size) for object_id, start, size in row.runs]
