"""Traffic: leases of servers, the history of routes, gateways and what they count, rollouts."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
        CREATE FUNCTION basis_points_of(shares jsonb) RETURNS bigint
        LANGUAGE sql IMMUTABLE STRICT AS $$
            SELECT sum((share ->> 'basis_points')::int) FROM jsonb_array_elements(shares) AS share
        $$
        """
    )
    op.create_table(
        "figures",
        sa.Column("gateway_id", sa.Text(), nullable=False),
        sa.Column("epoch", sa.Text(), nullable=False),
        sa.Column("model_name", sa.Text(collation="C"), nullable=False),
        sa.Column("version_name", sa.Text(collation="C"), nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("errors", sa.BigInteger(), nullable=False),
        sa.Column("latency_ms", postgresql.JSONB(), nullable=False),
        sa.Column(
            "updated_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint(
            "gateway_id", "epoch", "model_name", "version_name", name=op.f("pk_figures")
        ),
    )
    op.create_table(
        "gateway",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("clusters_revision", sa.BigInteger(), nullable=False),
        sa.Column("routes_revision", sa.BigInteger(), nullable=False),
        sa.Column(
            "seen_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gateway")),
    )
    op.create_table(
        "lease_watch",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column(
            "ticked_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.Column(
            "up_since", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.CheckConstraint("id = 1", name=op.f("ck_lease_watch_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lease_watch")),
    )
    op.create_table(
        "routing_clock",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_routing_clock_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_routing_clock")),
    )
    op.create_table(
        "endpoint",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("model_id", sa.BigInteger(), nullable=False),
        sa.Column("address", sa.Text(collation="C"), nullable=False),
        sa.Column("ttl_s", sa.Integer(), nullable=False),
        sa.Column("draining", sa.Boolean(), nullable=False),
        sa.Column(
            "registered_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column(
            "last_beat_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("gone_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("ttl_s > 0", name=op.f("ck_endpoint_ttl_positive")),
        sa.ForeignKeyConstraint(["model_id"], ["model.id"], name=op.f("fk_endpoint_model_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_endpoint")),
    )
    op.create_index(
        "uq_endpoint_model_id_address", "endpoint", ["model_id", "address"], unique=True
    )
    op.create_table(
        "route_revision",
        sa.Column("model_id", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("shares", postgresql.JSONB(), nullable=False),
        sa.Column("cohorts", postgresql.JSONB(), nullable=False),
        sa.Column("shadow", postgresql.JSONB(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("routing_revision", sa.BigInteger(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "basis_points_of(shares) = 10000", name=op.f("ck_route_revision_shares_are_whole")
        ),
        sa.CheckConstraint("revision > 0", name=op.f("ck_route_revision_revision_positive")),
        sa.ForeignKeyConstraint(
            ["model_id"], ["model.id"], name=op.f("fk_route_revision_model_id")
        ),
        sa.PrimaryKeyConstraint("model_id", "revision", name=op.f("pk_route_revision")),
    )
    op.create_table(
        "loaded",
        sa.Column("endpoint_id", sa.BigInteger(), nullable=False),
        sa.Column("version_id", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column(
            "since", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.Column("until", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["endpoint_id"], ["endpoint.id"], name=op.f("fk_loaded_endpoint_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["version_id"], ["version.id"], name=op.f("fk_loaded_version_id")),
        sa.PrimaryKeyConstraint("endpoint_id", "version_id", name=op.f("pk_loaded")),
    )
    op.create_index("ix_loaded_version_id", "loaded", ["version_id"], unique=False)
    op.create_table(
        "rollout",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("model_id", sa.BigInteger(), nullable=False),
        sa.Column("version_id", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("steps", sa.ARRAY(sa.Integer()), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("interval_s", sa.Float(), nullable=False),
        sa.Column("max_error_rate", sa.Float(), nullable=False),
        sa.Column("max_p99_ms", sa.Float(), nullable=True),
        sa.Column("min_requests", sa.Integer(), nullable=False),
        sa.Column("route_revision", sa.Integer(), nullable=False),
        sa.Column("first_revision", sa.Integer(), nullable=False),
        sa.Column("baseline", postgresql.JSONB(), nullable=False),
        sa.Column("figures", postgresql.JSONB(), nullable=False),
        sa.Column("waiting", sa.Text(), nullable=True),
        sa.Column("why", sa.Text(), nullable=True),
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("started_by", sa.Text(), nullable=False),
        sa.Column(
            "step_started_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "state IN ('running', 'paused', 'succeeded', 'rolled_back', 'aborted')",
            name=op.f("ck_rollout_state_known"),
        ),
        sa.ForeignKeyConstraint(["model_id"], ["model.id"], name=op.f("fk_rollout_model_id")),
        sa.ForeignKeyConstraint(["version_id"], ["version.id"], name=op.f("fk_rollout_version_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rollout")),
    )
    op.create_index(
        "ix_rollout_model_id_started_at", "rollout", ["model_id", "started_at"], unique=False
    )
    op.create_index(
        "uq_rollout_under_way",
        "rollout",
        ["model_id"],
        unique=True,
        postgresql_where=sa.text("state IN ('running', 'paused')"),
    )
    op.execute("INSERT INTO routing_clock (id, revision) VALUES (1, 1)")
    op.execute("INSERT INTO lease_watch (id) VALUES (1)")
    op.execute(
        """
        CREATE FUNCTION route_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'revisions of a route are never changed or deleted';
        END
        $$
        """
    )
    op.execute(
        "CREATE TRIGGER route_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON route_revision"
        " FOR EACH STATEMENT EXECUTE FUNCTION route_is_append_only()"
    )


def downgrade() -> None:
    op.drop_table("rollout")
    op.drop_table("loaded")
    op.drop_table("route_revision")
    op.drop_table("endpoint")
    op.drop_table("routing_clock")
    op.drop_table("lease_watch")
    op.drop_table("gateway")
    op.drop_table("figures")
    op.execute("DROP FUNCTION route_is_append_only")
    op.execute("DROP FUNCTION basis_points_of")
