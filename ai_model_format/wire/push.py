"""Push: what is missing, where to send it, how far it is."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from ai_model_format.wire.base import (
    AliasName,
    DigestText,
    FilePath,
    Problem,
    Request,
    Response,
    Size,
    VersionName,
)
from ai_model_format.wire.versions import Metadata


class PlainFile(Request):
    """A file whose structure the service reads itself after the upload."""

    path: FilePath
    size: Size
    sha256: DigestText


class PushRequest(Request):
    """Begin to push a version.

    Either ``manifest`` (its JSON, from a client that indexed and hashed the files)
    or ``files`` (plain HTTP: the service indexes them after the upload).
    """

    version: VersionName
    manifest: dict[str, Any] | None = None
    files: Annotated[list[PlainFile], Field(min_length=1, max_length=100_000)] | None = None
    metadata: Metadata = Metadata()
    alias: Annotated[AliasName | None, Field(description="Alias to point here when published")] = (
        None
    )


class MissingChunks(Response):
    """Chunks of one file that the registry lacks.

    ``ranges`` are half-open pairs of chunk indices in the manifest's file; for a
    push of plain ``files`` they are ``[[0, 1]]``, the whole file as one piece.
    """

    path: str
    ranges: list[tuple[int, int]]


PushState = Literal["open", "verifying", "ready", "failed"]


class PushInfo(Response):
    """A push under way, or its end.

    Attributes:
        created: False where the version was there before, with the same bytes.
        missing: what is to be uploaded before ``finish``, in an ``open`` push.
        bytes_total: of all files.
        bytes_missing: of the chunks in ``missing``.
        bytes_verified: how far verifying is.
        problem: why the push failed.
        notes: sentences for the author, such as metadata that differs from what is stored.
    """

    push_id: str
    model_id: str
    version: str
    manifest_digest: str | None = None
    state: PushState
    created: bool
    missing: list[MissingChunks] = []
    bytes_total: Size = 0
    bytes_missing: Size = 0
    bytes_verified: Size = 0
    expires_at: datetime | None = None
    problem: Problem | None = None
    notes: list[str] = []


class UploadContent(Request):
    """A run of chunks of one file, ``first_chunk`` up to but not including ``last_chunk``."""

    path: FilePath
    first_chunk: Annotated[int, Field(strict=True, ge=0)]
    last_chunk: Annotated[int, Field(strict=True, ge=1)]


class UploadRequest(Request):
    """An object to upload: runs of missing chunks, one behind the other."""

    digest: DigestText
    size: Annotated[int, Field(strict=True, ge=1, le=2**53 - 1)]
    contents: Annotated[list[UploadContent], Field(min_length=1, max_length=200_000)]


class UploadsRequest(Request):
    """Objects to upload for one push."""

    uploads: Annotated[list[UploadRequest], Field(min_length=1, max_length=1000)]


class PartTarget(Response):
    """Where to send one part: ``PUT url`` with exactly these headers and ``size`` bytes."""

    part_number: int
    offset: Size
    size: Size
    url: str
    headers: dict[str, str] = {}


class UploadInfo(Response):
    """An upload of one object, resumable by any process that knows the push.

    Attributes:
        state: ``stored`` where nothing is to be sent.
        part_size: bytes of every part but the last; part n starts at ``(n - 1) * part_size``.
        parts_stored: numbers of the parts that the store already holds.
        targets: where to send the next parts that are missing, the first 100 of them.
        expires_at: when the targets' URLs stop working.
    """

    upload_id: str
    digest: str
    size: Size
    state: Literal["open", "stored"]
    part_size: Size
    parts_stored: list[int] = []
    targets: list[PartTarget] = []
    expires_at: datetime | None = None


class UploadList(Response):
    """Uploads, in the order they were asked for."""

    uploads: list[UploadInfo]


class TargetsRequest(Request):
    """Ask for (new) URLs of parts."""

    part_numbers: Annotated[
        list[Annotated[int, Field(strict=True, ge=1, le=10_000)]],
        Field(min_length=1, max_length=1000),
    ]


class TargetList(Response):
    """Where to send the parts asked for."""

    targets: list[PartTarget]
    expires_at: datetime
