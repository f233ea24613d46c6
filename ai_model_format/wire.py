"""HTTP bodies, shared by the service and the client.

Requests forbid fields they do not know, so that a typing mistake is an error;
responses ignore them, so that an older client talks to a newer service. Times
are RFC 3339 UTC, sizes bytes, digests ``sha256:<hex>``. Must not hold logic
beyond checking values.
"""

import math
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

from ai_model_format import names
from ai_model_format.digest import DIGEST_PATTERN

MAX_METADATA_BYTES = 8 * 1024 * 1024
"""Largest metadata of one version (schemas, parameters, metrics, tags, groups) as JSON."""
MAX_JSON_DEPTH = 64
MAX_PAGE_SIZE = 1000


def check_text(text: str) -> str:
    """Refuse what Postgres cannot store as text: NUL and lone surrogates."""
    if "\0" in text:
        raise ValueError("must not hold a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("must be valid Unicode") from error
    return text


def check_json(value: Any) -> Any:
    """Refuse JSON that cannot be stored and given back unchanged: NaN, NUL, great depth."""
    stack = [(value, 1)]
    while stack:
        item, depth = stack.pop()
        if depth > MAX_JSON_DEPTH:
            raise ValueError(f"must not nest deeper than {MAX_JSON_DEPTH}")
        if isinstance(item, str):
            check_text(item)
        elif isinstance(item, float) and not math.isfinite(item):
            raise ValueError("must not hold NaN or an infinity, which JSON does not have")
        elif isinstance(item, int) and not isinstance(item, bool) and abs(item) > 2**63:
            raise ValueError("must not hold integers beyond 64 bits")
        elif isinstance(item, dict):
            stack.extend((key, depth) for key in item)
            stack.extend((member, depth + 1) for member in item.values())
        elif isinstance(item, list):
            stack.extend((member, depth + 1) for member in item)
    return value


Text = Annotated[str, AfterValidator(check_text)]
ShortText = Annotated[str, Field(min_length=1, max_length=512), AfterValidator(check_text)]
JsonObject = Annotated[dict[str, JsonValue], AfterValidator(check_json)]
DigestText = Annotated[str, Field(pattern=DIGEST_PATTERN)]
ModelId = Annotated[
    str, Field(pattern=names.MODEL_ID_PATTERN), AfterValidator(names.parse_model_id)
]
VersionName = Annotated[
    str, Field(pattern=names.VERSION_PATTERN), AfterValidator(names.parse_version)
]
AliasName = Annotated[str, Field(pattern=names.VERSION_PATTERN), AfterValidator(names.parse_alias)]
Ref = Annotated[str, Field(min_length=1, max_length=128), AfterValidator(names.parse_ref)]
FilePath = Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(names.parse_path)]
Size = Annotated[int, Field(ge=0, le=2**53 - 1)]


class Request(BaseModel):
    """A body that a client sends."""

    model_config = ConfigDict(extra="forbid")


class Response(BaseModel):
    """A body that the service answers."""

    model_config = ConfigDict(extra="ignore")


# Errors


class FieldError(Response):
    """One field of a request that is wrong."""

    field: str
    message: str


class Problem(Response):
    """An error, as ``application/problem+json`` (RFC 9457).

    ``code`` is stable and meant for programs: ``version_not_found``, ``invalid_request``...
    """

    type: str = "about:blank"
    title: str
    status: int
    code: str
    detail: str = ""
    request_id: str = ""
    errors: list[FieldError] = []


# Versions


class Dataset(Request):
    """The data a version was made from."""

    id: ShortText
    version: ShortText | None = None


class Parent(Request):
    """A version that this one was made from, such as the base of a fine-tune."""

    model_id: ModelId
    version: Ref


class Metadata(Request):
    """What an author says about a version. Immutable once the version is published."""

    input_schema: Annotated[
        JsonObject | None, Field(description="JSON Schema of the model's input")
    ] = None
    output_schema: Annotated[
        JsonObject | None, Field(description="JSON Schema of the model's output")
    ] = None
    dataset: Dataset | None = None
    parameters: JsonObject = {}
    metrics: JsonObject = {}
    git_commit: Annotated[str, Field(pattern=r"^[0-9a-f]{7,64}$")] | None = None
    parents: Annotated[list[Parent], Field(max_length=64)] = []
    tags: dict[ShortText, Annotated[Text, Field(max_length=4096)]] = {}
    groups: Annotated[
        dict[VersionName, Annotated[list[ShortText], Field(min_length=1, max_length=1024)]],
        Field(description="Named groups of layers: patterns by the group's name"),
    ] = {}


class FileInfo(Response):
    """One file of a version."""

    path: str
    size: Size
    sha256: str
    media_type: str
    format: str


class VersionInfo(Response):
    """One immutable version of a model."""

    model_id: str
    version: str
    manifest_digest: str
    size: Size = Field(description="Bytes of all files together")
    stored_bytes: Size = Field(description="Bytes this version added to the store")
    created_at: datetime
    created_by: str
    yanked_at: datetime | None = None
    yank_reason: str | None = None
    aliases: list[str] = []
    metadata: Metadata
    files: list[FileInfo]


class VersionSummary(Response):
    """A version in a list."""

    model_id: str
    version: str
    manifest_digest: str
    size: Size
    created_at: datetime
    created_by: str
    yanked_at: datetime | None = None
    aliases: list[str] = []


class VersionPage(Response):
    """Versions of a model, newest first."""

    versions: list[VersionSummary]
    next_page_token: str | None = None


class ModelInfo(Response):
    """A named line of versions."""

    model_id: str
    created_at: datetime
    version_count: int
    latest: Annotated[str | None, Field(description="Newest version that is not yanked")] = None


class ModelPage(Response):
    """Models, by id."""

    models: list[ModelInfo]
    next_page_token: str | None = None


class YankRequest(Request):
    """Mark a version as not to be used; its bytes stay readable by name."""

    reason: Annotated[Text, Field(min_length=1, max_length=4096)]


class AliasInfo(Response):
    """A movable name for a version."""

    alias: str
    model_id: str
    version: str
    manifest_digest: str
    updated_at: datetime
    updated_by: str


class AliasList(Response):
    """All aliases of a model."""

    aliases: list[AliasInfo]


class AliasRequest(Request):
    """Point an alias at a version."""

    version: Ref


# Push


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
        created: the push published the version; False where it was there before with the same bytes.
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
    first_chunk: Annotated[int, Field(ge=0)]
    last_chunk: Annotated[int, Field(ge=1)]


class UploadRequest(Request):
    """An object to upload: runs of missing chunks, one behind the other."""

    digest: DigestText
    size: Annotated[int, Field(ge=1, le=2**53 - 1)]
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
        list[Annotated[int, Field(ge=1, le=10_000)]], Field(min_length=1, max_length=1000)
    ]


class TargetList(Response):
    """Where to send the parts asked for."""

    targets: list[PartTarget]
    expires_at: datetime


# Get


class ObjectSource(Response):
    """Where to read an object by HTTP ``Range``.

    Attributes:
        digest: of the whole object.
        size: of the whole object.
        url: GET with a ``Range`` header; perhaps an edge.
        origin_url: past the edge, where there is one.
    """

    digest: str
    size: Size
    url: str
    origin_url: str | None = None


class FileLayout(Response):
    """A file as runs of (index in ``objects``, offset, size), one behind the other."""

    path: str
    runs: list[tuple[int, int, int]]


class LayoutInfo(Response):
    """Where a version's bytes lie now, with URLs that work until ``expires_at``."""

    model_id: str
    version: str
    manifest_digest: str
    objects: list[ObjectSource]
    files: list[FileLayout]
    expires_at: datetime


# Access

Role = Literal["reader", "writer", "admin"]


class TokenRequest(Request):
    """Make a token."""

    name: ShortText
    role: Role
    models: Annotated[list[ShortText], Field(min_length=1, max_length=100)] = ["*"]
    expires_in_s: Annotated[int, Field(ge=1, le=10 * 366 * 86400)] | None = None


class TokenInfo(Response):
    """A token, without its secret.

    ``models`` are globs over model ids that the token may use.
    """

    token_id: str
    name: str
    role: Role
    models: list[str]
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None


class TokenCreated(TokenInfo):
    """A new token with its secret, shown this once."""

    token: str


class TokenList(Response):
    """All tokens."""

    tokens: list[TokenInfo]


class Identity(Response):
    """Who the caller is."""

    name: str
    role: Role
    models: list[str]
    endpoint_version: str
