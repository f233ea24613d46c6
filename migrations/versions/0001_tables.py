"""Every table of the foundation: names, bytes, work under way, access, history."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "event",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column(
            "at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("model_name", sa.Text(collation="C"), nullable=True),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("before", postgresql.JSONB(), nullable=True),
        sa.Column("after", postgresql.JSONB(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_event")),
    )
    op.create_index("ix_event_model_name_id", "event", ["model_name", "id"], unique=False)
    op.create_table(
        "model",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("name", sa.Text(collation="C"), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_model")),
        sa.UniqueConstraint("name", name=op.f("uq_model_name")),
    )
    op.create_table(
        "object",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column(
            "verified_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.CheckConstraint("size > 0", name=op.f("ck_object_size_positive")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_object")),
        sa.UniqueConstraint("digest", name=op.f("uq_object_digest")),
    )
    op.create_table(
        "secret",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_secret")),
    )
    op.create_table(
        "token",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("models", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "role IN ('reader', 'writer', 'admin')", name=op.f("ck_token_role_known")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_token")),
        sa.UniqueConstraint("secret_hash", name=op.f("uq_token_secret_hash")),
    )
    op.create_table(
        "chunk",
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("object_id", sa.BigInteger(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["object_id"], ["object.id"], name=op.f("fk_chunk_object_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("digest", "object_id", name=op.f("pk_chunk")),
    )
    op.create_index("ix_chunk_object_id", "chunk", ["object_id"], unique=False)
    op.create_table(
        "push",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("token_id", sa.Uuid(), nullable=False),
        sa.Column("model_name", sa.Text(collation="C"), nullable=False),
        sa.Column("version_name", sa.Text(collation="C"), nullable=False),
        sa.Column("content_digest", sa.LargeBinary(32), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("manifest", sa.LargeBinary(), nullable=True),
        sa.Column("manifest_digest", sa.LargeBinary(32), nullable=True),
        sa.Column("files", postgresql.JSONB(), nullable=True),
        sa.Column("metadata", postgresql.JSONB(), nullable=False),
        sa.Column("alias", sa.Text(collation="C"), nullable=True),
        sa.Column("created", sa.Boolean(), nullable=False),
        sa.Column("problem", postgresql.JSONB(), nullable=True),
        sa.Column("notes", postgresql.JSONB(), nullable=False),
        sa.Column("bytes_total", sa.BigInteger(), nullable=False),
        sa.Column("bytes_verified", sa.BigInteger(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "manifest IS NOT NULL OR files IS NOT NULL OR state IN ('ready', 'failed')",
            name=op.f("ck_push_has_content"),
        ),
        sa.CheckConstraint(
            "state IN ('open', 'verifying', 'ready', 'failed')", name=op.f("ck_push_state_known")
        ),
        sa.ForeignKeyConstraint(["token_id"], ["token.id"], name=op.f("fk_push_token_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_push")),
    )
    op.create_index("ix_push_state_expires_at", "push", ["state", "expires_at"], unique=False)
    op.create_index(
        "uq_push_under_way",
        "push",
        ["token_id", "model_name", "version_name", "content_digest"],
        unique=True,
        postgresql_where=sa.text("state IN ('open', 'verifying')"),
    )
    op.create_table(
        "version",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("model_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(collation="C"), nullable=False),
        sa.Column("manifest_digest", sa.LargeBinary(32), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("stored_bytes", sa.BigInteger(), nullable=False),
        sa.Column("metadata", postgresql.JSONB(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("yanked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("yanked_by", sa.Text(), nullable=True),
        sa.Column("yank_reason", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["model_id"], ["model.id"], name=op.f("fk_version_model_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_version")),
    )
    op.create_index("ix_version_model_id_id", "version", ["model_id", "id"], unique=False)
    op.create_index(
        "ix_version_model_id_manifest_digest",
        "version",
        ["model_id", "manifest_digest"],
        unique=False,
    )
    op.create_index("uq_version_model_id_name", "version", ["model_id", "name"], unique=True)
    op.create_table(
        "alias",
        sa.Column("model_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(collation="C"), nullable=False),
        sa.Column("version_id", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column(
            "updated_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("updated_by", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["model_id"], ["model.id"], name=op.f("fk_alias_model_id")),
        sa.ForeignKeyConstraint(["version_id"], ["version.id"], name=op.f("fk_alias_version_id")),
        sa.PrimaryKeyConstraint("model_id", "name", name=op.f("pk_alias")),
    )
    op.create_index("ix_alias_version_id", "alias", ["version_id"], unique=False)
    op.create_table(
        "file",
        sa.Column("version_id", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("path", sa.Text(collation="C"), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.LargeBinary(32), nullable=False),
        sa.Column("media_type", sa.Text(), nullable=False),
        sa.Column("format", sa.Text(), nullable=False),
        sa.Column("content_digest", sa.LargeBinary(32), nullable=False),
        sa.Column("runs", postgresql.JSONB(), nullable=False),
        sa.ForeignKeyConstraint(["version_id"], ["version.id"], name=op.f("fk_file_version_id")),
        sa.PrimaryKeyConstraint("version_id", "position", name=op.f("pk_file")),
    )
    op.create_index("ix_file_content_digest", "file", ["content_digest"], unique=False)
    op.create_index("uq_file_version_id_path", "file", ["version_id", "path"], unique=True)
    op.create_table(
        "upload",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("push_id", sa.Uuid(), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("contents", postgresql.JSONB(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("object_id", sa.BigInteger(), nullable=True),
        sa.Column("part_size", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("store_id", sa.Text(), nullable=False),
        sa.Column("in_place", sa.Boolean(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.CheckConstraint(
            "(state = 'stored') = (object_id IS NOT NULL)", name=op.f("ck_upload_stored_is_object")
        ),
        sa.CheckConstraint(
            "state IN ('open', 'completed', 'stored')", name=op.f("ck_upload_state_known")
        ),
        sa.ForeignKeyConstraint(["object_id"], ["object.id"], name=op.f("fk_upload_object_id")),
        sa.ForeignKeyConstraint(
            ["push_id"], ["push.id"], name=op.f("fk_upload_push_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_upload")),
    )
    op.create_index(
        "uq_upload_in_place",
        "upload",
        ["digest"],
        unique=True,
        postgresql_where=sa.text("in_place AND state <> 'stored'"),
    )
    op.create_index("uq_upload_push_id_digest", "upload", ["push_id", "digest"], unique=True)
    op.create_table(
        "version_object",
        sa.Column("version_id", sa.BigInteger(), nullable=False),
        sa.Column("object_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["object_id"], ["object.id"], name=op.f("fk_version_object_object_id")
        ),
        sa.ForeignKeyConstraint(
            ["version_id"], ["version.id"], name=op.f("fk_version_object_version_id")
        ),
        sa.PrimaryKeyConstraint("version_id", "object_id", name=op.f("pk_version_object")),
    )
    op.create_index("ix_version_object_object_id", "version_object", ["object_id"], unique=False)
    op.execute(
        """
        CREATE FUNCTION event_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'events are never changed or deleted';
        END
        $$
        """
    )
    op.execute(
        "CREATE TRIGGER event_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON event"
        " FOR EACH STATEMENT EXECUTE FUNCTION event_is_append_only()"
    )


def downgrade() -> None:
    op.drop_table("version_object")
    op.drop_table("upload")
    op.drop_table("file")
    op.drop_table("alias")
    op.drop_table("version")
    op.drop_table("push")
    op.drop_table("chunk")
    op.drop_table("token")
    op.drop_table("secret")
    op.drop_table("object")
    op.drop_table("model")
    op.drop_table("event")
    op.execute("DROP FUNCTION event_is_append_only")
