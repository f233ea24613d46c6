"""Migrations: up from nothing, down, up again, no drift, many processes at once."""

import subprocess
import sys

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Engine, inspect, text
from sqlalchemy.exc import DBAPIError

from registry_api.db.migrate import downgrade, is_ours, upgrade
from registry_api.db.session import open_engine
from registry_api.db.tables import Row


def _tables(url: str) -> set[str]:
    engine = open_engine(url, pool_size=1)
    try:
        seen = inspect(engine)
        return {*seen.get_table_names(), *seen.get_table_names(schema="jobs")}
    finally:
        engine.dispose()


def test_up_down_up(empty_database: str) -> None:
    upgrade(empty_database)
    whole = _tables(empty_database)
    assert {"version", "chunk", "procrastinate_jobs"} <= whole
    downgrade(empty_database, "base")
    assert _tables(empty_database) == {"alembic_version"}
    upgrade(empty_database)
    assert _tables(empty_database) == whole


def test_tables_and_migrations_agree(engine: Engine) -> None:
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={"compare_type": True, "compare_server_default": True, "include_name": is_ours},
        )
        assert compare_metadata(context, Row.metadata) == []


def test_many_processes_migrate_an_empty_database_at_once(empty_database: str) -> None:
    code = "import sys; from registry_api.db.migrate import upgrade; upgrade(sys.argv[1])"
    processes = [
        subprocess.Popen([sys.executable, "-c", code, empty_database], stderr=subprocess.PIPE)
        for _ in range(8)
    ]
    results = [(process.communicate()[1], process.returncode) for process in processes]
    assert [code for _, code in results] == [0] * 8, results
    assert "version" in _tables(empty_database)


def test_versions_are_written_anew_once(empty_database: str) -> None:
    """A rewrite locks the table for as long as it takes."""
    upgrade(empty_database, "0003")
    engine = open_engine(empty_database, pool_size=1)
    try:
        with engine.begin() as connection:
            for statement in COUNTING_REWRITES:
                connection.execute(text(statement))
        upgrade(empty_database)
        with engine.connect() as connection:
            assert connection.execute(text("SELECT name FROM rewrite")).all() == [("version",)]
    finally:
        engine.dispose()


COUNTING_REWRITES = (
    "CREATE TABLE rewrite (name text)",
    """
    CREATE FUNCTION count_rewrite() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO rewrite VALUES (pg_event_trigger_table_rewrite_oid()::regclass);
    END $$
    """,
    "CREATE EVENT TRIGGER counting ON table_rewrite EXECUTE FUNCTION count_rewrite()",
)


@pytest.mark.parametrize("statement", ["UPDATE event SET actor = 'x'", "DELETE FROM event"])
def test_events_cannot_be_changed(engine: Engine, statement: str) -> None:
    with engine.connect() as connection, pytest.raises(DBAPIError, match="never changed"):
        connection.execute(text(statement))
