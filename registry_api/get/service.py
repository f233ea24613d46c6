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
from registry_api.catalog import queries
from registry_api.db.tables import FileRow, ObjectRow, VersionRow
from registry_api.errors import FileNotFound, ModelNotFound, VersionNotFound
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


def resolve(session: Session, model_id: str, ref: str) -> VersionRow:
    """Return the version that a ref means.

    Raises:
        ModelNotFound: there is no such model.
        VersionNotFound: it has no such version.
    """
    version = queries.resolve(session, model_id, ref)
    if version is not None:
        return version
    if queries.find_model(session, model_id) is None:
        raise ModelNotFound(model_id)
    raise VersionNotFound(model_id, ref)


def manifest_size(session: Session, version: VersionRow) -> int:
    """Return the bytes of a version's manifest."""
    query = select(ObjectRow.size).where(ObjectRow.digest == version.manifest_digest)
    return session.scalars(query).one()


def layout(
    session: Session,
    parts: Parts,
    model_id: str,
    version: VersionRow,
    *,
    base_url: str,
    edge: Edge | None = None,
) -> LayoutInfo:
    """Return where a version's bytes lie, with URLs for its objects, at ``edge`` where given."""
    files = queries.files_of(session, version.id)
    ids = list(dict.fromkeys(object_id for f in files for object_id, _, _ in _runs(f)))
    places = {object_id: index for index, object_id in enumerate(ids)}
    found = object_digests(session, ids)
    expires_at = datetime.fromtimestamp(int(time.time()) + parts.settings.url_expires_s, UTC)

    def source(digest: Digest, size: int) -> ObjectSource:
        origin = object_url(parts, digest, base_url)
        if edge is None:
            return ObjectSource(digest=digest, size=size, url=origin)
        near = edge_url(edge, origin, expires_at)
        return ObjectSource(digest=digest, size=size, url=near, origin_url=origin)

    return LayoutInfo(
        model_id=model_id,
        version=version.name,
        manifest_digest=version.manifest_digest,
        objects=[source(*found[object_id]) for object_id in ids],
        files=[
            FileLayout(path=f.path, runs=[(places[o], start, size) for o, start, size in _runs(f)])
            for f in files
        ],
        expires_at=expires_at,
    )


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
