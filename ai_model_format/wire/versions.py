"""Models, versions, aliases and what an author says about them."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from ai_model_format.wire.base import (
    MAX_PAGE_SIZE,
    DigestText,
    JsonObject,
    ModelId,
    Ref,
    Request,
    Response,
    ShortText,
    Size,
    Text,
    VersionName,
)


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
    dataset: Dataset | None = None
    git_commit: str | None = None
    aliases: list[str] = []


class VersionPage(Response):
    """Versions, newest first."""

    versions: list[VersionSummary]
    next_page_token: str | None = None


Pairs = Annotated[
    list[Annotated[Text, Field(pattern="^[^=]+=", max_length=4096)]], Field(max_length=32)
]


class FindRequest(Request):
    """Ask for versions of which all of this is true, as the query of a URL."""

    dataset_id: ShortText | None = None
    dataset_version: ShortText | None = None
    git_commit: Annotated[
        str | None, Field(pattern=r"^[0-9a-f]{4,64}$", description="What it starts with")
    ] = None
    param: Annotated[
        Pairs,
        Field(description="key=value, nested.key=value; the value is JSON if it reads so"),
    ] = []
    tag: Annotated[Pairs, Field(description="key=text")] = []
    sha256: Annotated[
        DigestText | None, Field(description="Of a file of the version, or of its manifest")
    ] = None
    created_by: ShortText | None = None
    prefix: Annotated[Text, Field(max_length=256, description="Of the model's id")] = ""
    page_size: Annotated[int, Field(ge=1, le=MAX_PAGE_SIZE)] = 100
    page_token: Annotated[Text | None, Field(max_length=1024)] = None


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
    """Aliases of a model, by name."""

    aliases: list[AliasInfo]
    next_page_token: str | None = None


class AliasRequest(Request):
    """Point an alias at a version."""

    version: Ref
