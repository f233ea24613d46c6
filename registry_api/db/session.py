"""Connections to Postgres. One engine a process; a session is one transaction."""

import select
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias, cast

import psycopg
from psycopg.conninfo import make_conninfo
from sqlalchemy import URL, Engine, NullPool, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import InvalidatePoolError, OperationalError
from sqlalchemy.orm import Session

SEARCH_PATH = "public,jobs"
"""Ours, then the job queue's: procrastinate's tables live in a schema of their own."""
Driver: TypeAlias = psycopg.Connection[tuple[Any, ...]]
_CONNECT_ARGS = {"options": f"-c search_path={SEARCH_PATH} -c timezone=UTC"}


def open_engine(database_url: str, *, pool_size: int = 20) -> Engine:
    """Return a pool of connections; connects when first used."""
    engine = create_engine(
        _psycopg_url(database_url),
        pool_size=pool_size,
        max_overflow=pool_size,
        connect_args=_CONNECT_ARGS,
    )
    event.listen(engine, "checkout", _refuse_dead)
    return engine


def open_unpooled_engine(database_url: str) -> Engine:
    """Return what opens a connection for each use, that closes after it."""
    return create_engine(
        _psycopg_url(database_url),
        poolclass=NullPool,
        isolation_level="AUTOCOMMIT",
        connect_args=_CONNECT_ARGS,
    )


def conninfo_of(database_url: str) -> str:
    """Return libpq's own words for what our engines connect to, for those without SQLAlchemy."""
    url = _psycopg_url(database_url)
    _, arguments = url.get_dialect()().create_connect_args(url)
    return make_conninfo(**{**arguments, **_CONNECT_ARGS})


def _psycopg_url(database_url: str) -> URL:
    return make_url(database_url).set(drivername="postgresql+psycopg")


def _refuse_dead(connection: Any, *_: Any) -> None:
    """Have the pool connect anew where Postgres has ended a connection that lay idle.

    Looks whether the socket has something to say, which no idle connection does: a ping
    would cost every request a round trip.
    """
    if not connection.closed:
        socket = select.poll()
        socket.register(connection.fileno(), select.POLLIN)
        if not socket.poll(0):
            return
    raise InvalidatePoolError


@contextmanager
def reading(engine: Engine) -> Iterator[Session]:
    """Read in statements that each stand for themselves, so that none waits for BEGIN or COMMIT."""
    with Session(engine.execution_options(isolation_level="AUTOCOMMIT")) as session:
        yield session


@contextmanager
def driver_reading(engine: Engine) -> Iterator[Driver]:
    """Read as ``reading`` does, by the driver alone: for the few questions that are asked most.

    Raises:
        OperationalError: the connection broke, as SQLAlchemy says it.
    """
    pooled = engine.raw_connection()
    try:
        driver = cast("Driver", pooled.driver_connection)
        driver.autocommit = True
        try:
            yield driver
        finally:
            if not driver.closed:
                driver.autocommit = False
    except psycopg.OperationalError as error:
        pooled.invalidate(error)
        raise OperationalError(None, None, error, connection_invalidated=True) from error
    finally:
        pooled.close()


def driver_of(session: Session) -> Driver:
    """Return the driver's connection that a session's transaction runs on."""
    return cast("Driver", session.connection().connection.driver_connection)


@contextmanager
def transaction(engine: Engine) -> Iterator[Session]:
    """Run one transaction: committed at the end, rolled back on an error."""
    with Session(engine, expire_on_commit=False) as session, session.begin():
        yield session
