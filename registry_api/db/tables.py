"""Every table of the registry, from names to bytes to work under way.

Rules live here as constraints, so that two processes can race and one loses
cleanly. Sizes are bytes. Bulk rows (chunks) have no relationships; nothing
loads lazily.
"""

import uuid

from sqlalchemy import ARRAY, CheckConstraint, Computed, ForeignKey, Index, LargeBinary, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from registry_api.db.base import (
    ByteOrderedText,
    Bytes,
    Created,
    DigestColumn,
    Id,
    Json,
    Moment,
    Name,
    RandomId,
    Row,
    Words,
)

PUSH_STATES = ("open", "verifying", "ready", "failed")
UPLOAD_STATES = ("open", "completed", "stored")
ROLES = ("reader", "writer", "admin")


def _one_of(column: str, values: tuple[str, ...]) -> CheckConstraint:
    listed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({listed})", name=f"{column}_known")


# Names


class ModelRow(Row):
    """A named line of versions. Its row lock orders everything that takes a name in it."""

    __tablename__ = "model"
    id: Mapped[Id]
    name: Mapped[Name] = mapped_column(ByteOrderedText, unique=True)
    created_at: Mapped[Created]
    # Kept by publishing, under that lock: counting again would read every version of a model.
    version_count: Mapped[int] = mapped_column(default=0, server_default="0")


class VersionRow(Row):
    """One immutable set of files, named by its author within a model."""

    __tablename__ = "version"
    __table_args__ = (
        Index("uq_version_model_id_name", "model_id", "name", unique=True),
        Index("ix_version_model_id_id", "model_id", "id"),
        Index("ix_version_manifest_digest_model_id", "manifest_digest", "model_id"),
    )
    id: Mapped[Id]
    model_id: Mapped[int] = mapped_column(ForeignKey("model.id"))
    name: Mapped[Name]
    manifest_digest: Mapped[DigestColumn]
    size: Mapped[Bytes]
    stored_bytes: Mapped[Bytes]
    # "metadata" is SQLAlchemy's own word on a table class.
    facts: Mapped[Json] = mapped_column("metadata")
    created_at: Mapped[Created]
    created_by: Mapped[Words]
    yanked_at: Mapped[Moment | None]
    yanked_by: Mapped[Words | None]
    yank_reason: Mapped[Words | None]
    # What lists show of the metadata, which may have megabytes.
    dataset_id: Mapped[Words | None] = mapped_column(
        Computed("(metadata -> 'dataset'::text) ->> 'id'::text", persisted=True)
    )
    dataset_version: Mapped[Words | None] = mapped_column(
        Computed("(metadata -> 'dataset'::text) ->> 'version'::text", persisted=True)
    )
    git_commit: Mapped[Words | None] = mapped_column(
        Computed("metadata ->> 'git_commit'::text", persisted=True)
    )


class FileRow(Row):
    """One file of a version, and where its bytes lie.

    ``runs`` is the layout: triples (object id, offset, size), one behind the
    other. ``content_digest`` names everything the manifest says about the
    content (chunks, tensors...), so that what was verified once is known again.
    """

    __tablename__ = "file"
    __table_args__ = (
        Index("uq_file_version_id_path", "version_id", "path", unique=True),
        Index("ix_file_content_digest", "content_digest"),
        Index("ix_file_sha256_version_id", "sha256", "version_id"),
    )
    version_id: Mapped[int] = mapped_column(ForeignKey("version.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    path: Mapped[Name]
    size: Mapped[Bytes]
    sha256: Mapped[DigestColumn]
    media_type: Mapped[Words]
    format: Mapped[Words]
    content_digest: Mapped[DigestColumn]
    runs: Mapped[Json]


class AliasRow(Row):
    """A movable name for a version. ``revision`` counts its moves, for ``If-Match``."""

    __tablename__ = "alias"
    __table_args__ = (Index("ix_alias_version_id", "version_id"),)
    model_id: Mapped[int] = mapped_column(ForeignKey("model.id"), primary_key=True)
    name: Mapped[Name] = mapped_column(ByteOrderedText, primary_key=True)
    version_id: Mapped[int] = mapped_column(ForeignKey("version.id"))
    revision: Mapped[int]
    updated_at: Mapped[Created]
    updated_by: Mapped[Words]


# Bytes


class ObjectRow(Row):
    """Immutable bytes in the store that the service has hashed itself.

    A row stands here only after that, and nothing reads an object without one.
    """

    __tablename__ = "object"
    __table_args__ = (CheckConstraint("size > 0", name="size_positive"),)
    id: Mapped[Id]
    digest: Mapped[DigestColumn] = mapped_column(unique=True)
    size: Mapped[Bytes]
    verified_at: Mapped[Created]


class ChunkRow(Row):
    """Where a chunk's bytes lie in an object; the largest table, so only fixed-width columns."""

    __tablename__ = "chunk"
    __table_args__ = (Index("ix_chunk_object_id", "object_id"),)
    digest: Mapped[DigestColumn] = mapped_column(primary_key=True)
    object_id: Mapped[int] = mapped_column(
        ForeignKey("object.id", ondelete="CASCADE"), primary_key=True
    )
    start: Mapped[Bytes]
    size: Mapped[int]


class VersionObjectRow(Row):
    """A version needs an object: keeps it from being collected, and lets its readers read it."""

    __tablename__ = "version_object"
    __table_args__ = (Index("ix_version_object_object_id", "object_id"),)
    version_id: Mapped[int] = mapped_column(ForeignKey("version.id"), primary_key=True)
    object_id: Mapped[int] = mapped_column(ForeignKey("object.id"), primary_key=True)


# Work under way


class PushRow(Row):
    """A push, from begin to its end. The lease ends at ``expires_at`` while it is open.

    ``content_digest`` names what is pushed (the manifest, or the list of plain
    files), so that the same request finds its push again.
    """

    __tablename__ = "push"
    __table_args__ = (
        _one_of("state", PUSH_STATES),
        CheckConstraint(
            "manifest IS NOT NULL OR files IS NOT NULL OR state IN ('ready', 'failed')",
            name="has_content",
        ),
        Index(
            "uq_push_under_way",
            "token_id",
            "model_name",
            "version_name",
            "content_digest",
            unique=True,
            postgresql_where=text("state IN ('open', 'verifying')"),
        ),
        Index("ix_push_state_expires_at", "state", "expires_at"),
    )
    id: Mapped[RandomId]
    token_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("token.id"))
    model_name: Mapped[Name]
    version_name: Mapped[Name]
    content_digest: Mapped[DigestColumn]
    state: Mapped[Words]
    manifest: Mapped[bytes | None] = mapped_column(LargeBinary, deferred=True)
    manifest_digest: Mapped[DigestColumn | None]
    files: Mapped[Json | None]
    facts: Mapped[Json] = mapped_column("metadata")
    alias: Mapped[Name | None]
    created: Mapped[bool] = mapped_column(default=False)
    problem: Mapped[Json | None]
    notes: Mapped[Json]
    bytes_total: Mapped[Bytes]
    bytes_verified: Mapped[Bytes] = mapped_column(default=0)
    created_at: Mapped[Created]
    expires_at: Mapped[Moment]


class UploadRow(Row):
    """One object on its way into the store, for one push.

    ``open`` takes parts, ``completed`` waits to be verified, ``stored`` is an object.
    """

    __tablename__ = "upload"
    __table_args__ = (
        _one_of("state", UPLOAD_STATES),
        CheckConstraint("(state = 'stored') = (object_id IS NOT NULL)", name="stored_is_object"),
        Index("uq_upload_push_id_digest", "push_id", "digest", unique=True),
        Index(
            "uq_upload_in_place",
            "digest",
            unique=True,
            postgresql_where=text("in_place AND state <> 'stored'"),
        ),
    )
    id: Mapped[RandomId]
    push_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("push.id", ondelete="CASCADE"))
    digest: Mapped[DigestColumn]
    size: Mapped[Bytes]
    contents: Mapped[Json]
    state: Mapped[Words]
    object_id: Mapped[int | None] = mapped_column(ForeignKey("object.id"))
    part_size: Mapped[Bytes]
    key: Mapped[Words]
    store_id: Mapped[Words]
    in_place: Mapped[bool]
    created_at: Mapped[Created]


# Access and history


class TokenRow(Row):
    """A bearer token, as the SHA-256 of its secret. Kept when revoked: history names it."""

    __tablename__ = "token"
    __table_args__ = (_one_of("role", ROLES),)
    id: Mapped[RandomId]
    name: Mapped[Words]
    secret_hash: Mapped[DigestColumn] = mapped_column(unique=True)
    role: Mapped[Words]
    models: Mapped[list[str]] = mapped_column(ARRAY(Text))
    created_at: Mapped[Created]
    expires_at: Mapped[Moment | None]
    revoked_at: Mapped[Moment | None]
    last_used_at: Mapped[Moment | None]


class EventRow(Row):
    """One line of the history. A trigger refuses to change or delete it."""

    __tablename__ = "event"
    __table_args__ = (Index("ix_event_model_name_id", "model_name", "id"),)
    id: Mapped[Id]
    at: Mapped[Created]
    actor: Mapped[Words]
    action: Mapped[Words]
    model_name: Mapped[Name | None]
    subject: Mapped[Words]
    before: Mapped[Json | None]
    after: Mapped[Json | None]


class SecretRow(Row):
    """A key that all API processes of one registry share, such as the one that signs URLs."""

    __tablename__ = "secret"
    name: Mapped[str] = mapped_column(Text, primary_key=True)
    value: Mapped[bytes] = mapped_column(LargeBinary)
