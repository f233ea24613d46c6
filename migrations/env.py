"""Alembic's entry. Runs on a connection it is given, else on the one in the settings."""

from alembic import context
from sqlalchemy import Connection

from registry_api.db.migrate import is_ours
from registry_api.db.session import open_engine
from registry_api.db.tables import Row
from registry_api.settings import Settings


def run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=Row.metadata,
        transaction_per_migration=True,
        compare_server_default=True,
        include_name=is_ours,
    )
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    engine = open_engine(Settings().database_url)
    with engine.connect() as connection:
        run(connection)
    engine.dispose()
