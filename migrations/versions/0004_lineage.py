"""Lineage and find: parents as rows, facts by which versions are found, counts kept.

Fills all of them from the metadata of the versions that are there. A parent that names no
version (before parents were pinned, it could) gets no row: nobody can say what it meant.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

GENERATED = {
    "dataset_id": "(metadata -> 'dataset'::text) ->> 'id'::text",
    "dataset_version": "(metadata -> 'dataset'::text) ->> 'version'::text",
    "git_commit": "metadata ->> 'git_commit'::text",
}


def upgrade() -> None:
    op.add_column(
        "model", sa.Column("version_count", sa.Integer(), server_default="0", nullable=False)
    )
    op.execute(
        "UPDATE model SET version_count ="
        " (SELECT count(*) FROM version WHERE version.model_id = model.id)"
    )
    _add_generated()
    op.create_index(
        "ix_version_manifest_digest_model_id", "version", ["manifest_digest", "model_id"]
    )
    op.drop_index("ix_version_model_id_manifest_digest", "version")
    op.create_index("ix_file_sha256_version_id", "file", ["sha256", "version_id"])
    _add_json()
    _add_parents()
    _add_facts()


def _add_generated() -> None:
    """Add the generated columns in one statement, for which Postgres writes the table once."""
    added = (
        f"ADD COLUMN {name} text GENERATED ALWAYS AS ({expression}) STORED"
        for name, expression in GENERATED.items()
    )
    op.execute(f"ALTER TABLE version {', '.join(added)}")


def _add_json() -> None:
    """Add how answers write a time and a dataset."""
    op.execute(
        """
        CREATE FUNCTION json_time(moment timestamptz) RETURNS text
        LANGUAGE sql STABLE STRICT AS $$
            SELECT to_char(moment AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
        $$
        """
    )
    op.execute(
        """
        CREATE FUNCTION json_dataset(id text, version text) RETURNS json
        LANGUAGE sql STABLE AS $$
            SELECT CASE WHEN id IS NOT NULL THEN
                json_build_object('id', id, 'version', version) END
        $$
        """
    )


def _add_parents() -> None:
    op.create_table(
        "version_parent",
        sa.Column("version_id", sa.BigInteger(), nullable=False),
        sa.Column("parent_id", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("parent_id < version_id", name=op.f("ck_version_parent_parent_first")),
        sa.ForeignKeyConstraint(
            ["version_id"], ["version.id"], name=op.f("fk_version_parent_version_id")
        ),
        sa.ForeignKeyConstraint(
            ["parent_id"], ["version.id"], name=op.f("fk_version_parent_parent_id")
        ),
        sa.PrimaryKeyConstraint("version_id", "parent_id", name=op.f("pk_version_parent")),
    )
    op.execute(
        """
        INSERT INTO version_parent (version_id, parent_id)
        SELECT DISTINCT child.id, parent.id
        FROM version AS child
        CROSS JOIN jsonb_array_elements(child.metadata -> 'parents') AS named
        JOIN model ON model.name = named ->> 'model_id'
        JOIN version AS parent
            ON parent.model_id = model.id AND parent.name = named ->> 'version'
        WHERE parent.id < child.id
        """
    )
    op.create_index(
        "ix_version_parent_parent_id_version_id", "version_parent", ["parent_id", "version_id"]
    )


def _add_facts() -> None:
    # A term is what it says: parameters.lr=0.1. Numbers read the same however they were written,
    # and what is too long for an index is known by its digest.
    op.execute(
        """
        CREATE FUNCTION fact_term(path text, value jsonb) RETURNS text
        LANGUAGE sql IMMUTABLE STRICT AS $$
            SELECT CASE WHEN octet_length(term) <= 400 THEN term
                ELSE 'sha256:' || encode(sha256(convert_to(term, 'UTF8')), 'hex') END
            FROM (
                SELECT path || '=' || CASE jsonb_typeof(value)
                    WHEN 'number' THEN trim_scale(value::numeric)::text
                    WHEN 'string' THEN value #>> '{}'
                    ELSE value::text END AS term
            )
        $$
        """
    )
    # The first thousand, those near the top first: metadata may have any size.
    op.execute(
        """
        CREATE FUNCTION fact_terms(metadata jsonb, created_by text) RETURNS SETOF text
        LANGUAGE sql IMMUTABLE AS $$
            WITH RECURSIVE fact (path, value) AS (
                (
                    SELECT 'created_by', to_jsonb(created_by)
                    UNION ALL
                    SELECT key, value FROM jsonb_each(metadata)
                    WHERE key IN ('dataset', 'git_commit', 'parameters', 'tags')
                )
                UNION ALL
                SELECT fact.path || '.' || member.key, member.value
                FROM fact CROSS JOIN jsonb_each(
                    CASE jsonb_typeof(fact.value) WHEN 'object' THEN fact.value ELSE '{}' END
                ) AS member
                WHERE octet_length(fact.path) + octet_length(member.key) < 400
            )
            SELECT DISTINCT fact_term(path, value) FROM (
                SELECT path, value FROM fact
                WHERE jsonb_typeof(value) NOT IN ('object', 'null') LIMIT 1000
            )
        $$
        """
    )
    op.create_table(
        "fact",
        sa.Column("term", sa.Text(collation="C"), nullable=False),
        sa.Column("version_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["version_id"], ["version.id"], name=op.f("fk_fact_version_id")),
        sa.PrimaryKeyConstraint("term", "version_id", name=op.f("pk_fact")),
    )
    op.execute(
        "INSERT INTO fact (term, version_id)"
        " SELECT term, id FROM version CROSS JOIN fact_terms(metadata, created_by) AS term"
    )


def downgrade() -> None:
    op.drop_table("fact")
    op.execute("DROP FUNCTION json_dataset")
    op.execute("DROP FUNCTION json_time")
    op.execute("DROP FUNCTION fact_terms")
    op.execute("DROP FUNCTION fact_term")
    op.drop_table("version_parent")
    op.drop_index("ix_file_sha256_version_id", "file")
    op.create_index(
        "ix_version_model_id_manifest_digest", "version", ["model_id", "manifest_digest"]
    )
    op.drop_index("ix_version_manifest_digest_model_id", "version")
    for name in GENERATED:
        op.drop_column("version", name)
    op.drop_column("model", "version_count")
