"""The job queue: procrastinate's tables and functions, in a schema of their own."""

from pathlib import Path

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

SCHEMA_SQL = Path(__file__).with_name("procrastinate_3_10.sql")
"""As procrastinate 3.10 ships it: a migration must not change when a library does."""


def upgrade() -> None:
    op.execute("CREATE SCHEMA jobs")
    op.execute("SET LOCAL search_path = jobs")
    # Past SQLAlchemy: the text holds many statements, and "%" that are no parameters.
    op.get_bind().connection.driver_connection.execute(SCHEMA_SQL.read_text())
    op.execute("SET LOCAL search_path = public, jobs")


def downgrade() -> None:
    op.execute("DROP SCHEMA jobs CASCADE")
