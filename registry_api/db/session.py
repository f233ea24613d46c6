"""Connections to Postgres. One engine a process; a session is one transaction."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine, NullPool, create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session

SEARCH_PATH = "public,jobs"
"""Ours, then the job queue's: procrastinate's tables live in a schema of their own."""
_CONNECT_ARGS = {"options": f"-c search_path={SEARCH_PATH} -c timezone=UTC"}


def open_engine(database_url: str, *, pool_size: int = 20) -> Engine:
    """Return a pool of connections; connects when first used."""
    return create_engine(
        make_url(database_url).set(drivername="postgresql+psycopg"),
        pool_size=pool_size,
        max_overflow=pool_size,
        pool_pre_ping=True,
        connect_args=_CONNECT_ARGS,
    )


def open_unpooled_engine(database_url: str) -> Engine:
    """Return what opens a connection for each use, that closes after it."""
    url = make_url(database_url).set(drivername="postgresql+psycopg")
    return create_engine(
        url, poolclass=NullPool, isolation_level="AUTOCOMMIT", connect_args=_CONNECT_ARGS
    )


def libpq_url(database_url: str) -> str:
    """Return the URL for those who speak to Postgres without SQLAlchemy, with our search path."""
    url = make_url(database_url).set(drivername="postgresql")
    url = url.update_query_dict({"options": f"-c search_path={SEARCH_PATH}"})
    return url.render_as_string(hide_password=False).replace("+", "%20")


@contextmanager
def transaction(engine: Engine) -> Iterator[Session]:
    """Run one transaction: committed at the end, rolled back on an error."""
    with Session(engine, expire_on_commit=False) as session, session.begin():
        yield session
