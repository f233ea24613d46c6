"""Bring a database to the newest schema. Safe to call from many processes at once."""

from importlib import resources

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text

from registry_api.db.session import open_engine
from registry_api.find import tables as _find_tables  # noqa: F401 - known to Row by import
from registry_api.lineage import tables as _lineage_tables  # noqa: F401
from registry_api.rollout import tables as _rollout_tables  # noqa: F401
from registry_api.routing import tables as _routing_tables  # noqa: F401

_LOCK = 0x61696D6F  # any number nobody else takes on this database
LOCK_TIMEOUT_S = 10
STATEMENT_TIMEOUT_S = 600


def alembic_config(connection: Connection | None = None) -> Config:
    """Return alembic's settings; ``migrations`` is a package, so a wheel carries them too."""
    config = Config()
    config.set_main_option("script_location", str(resources.files("migrations")))
    config.attributes["connection"] = connection
    return config


def is_ours(name: str | None, kind: str, _parents: object) -> bool:
    """Tell alembic's comparison which tables are ours: not the job queue's."""
    return not (kind == "table" and name is not None and name.startswith("procrastinate_"))


def upgrade(database_url: str, revision: str = "head") -> None:
    """Run the migrations that are missing, each in a transaction of its own."""
    _run(database_url, revision, up=True)


def downgrade(database_url: str, revision: str) -> None:
    """Take migrations back down to ``revision`` (``base`` for all)."""
    _run(database_url, revision, up=False)


def _run(database_url: str, revision: str, *, up: bool) -> None:
    engine = open_engine(database_url, pool_size=2)
    move = command.upgrade if up else command.downgrade
    try:
        with engine.connect() as guard, engine.connect() as connection:
            guard.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": _LOCK})
            connection.execute(text(f"SET lock_timeout = '{LOCK_TIMEOUT_S}s'"))
            connection.execute(text(f"SET statement_timeout = '{STATEMENT_TIMEOUT_S}s'"))
            connection.commit()
            move(alembic_config(connection), revision)
    finally:
        engine.dispose()
