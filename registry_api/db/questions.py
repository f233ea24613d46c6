"""Questions that one row answers, and the event loop's own way to ask them.

A thread that waits for Postgres takes the interpreter from the loop and gives it back several
times a question, which costs as much as all else that the service does for it.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, LiteralString, TypeAlias, TypeVar

import psycopg
from sqlalchemy.exc import OperationalError

from registry_api.db.session import Driver, conninfo_of

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]
Connection: TypeAlias = psycopg.AsyncConnection[Row]


@dataclass(frozen=True, slots=True)
class Question(Generic[T]):
    """One statement that finds one row or none.

    Attributes:
        sql: the statement.
        values: of its placeholders.
        read: makes of the row what it means.
    """

    sql: LiteralString
    values: Mapping[str, Any]
    read: Callable[[Row], T]


def ask(driver: Driver, question: Question[T]) -> T | None:
    """Return the answer, ``None`` where there is no row."""
    row = driver.execute(question.sql, question.values).fetchone()
    return None if row is None else question.read(row)


class LoopReader:
    """Connections that the event loop waits on, each statement standing for itself.

    Made on the loop that uses it.

    Args:
        database_url: of Postgres.
        connections: how many at most.
    """

    def __init__(self, database_url: str, *, connections: int) -> None:
        self._conninfo = conninfo_of(database_url)
        self._turns = asyncio.Semaphore(connections)
        self._idle: list[Connection] = []

    async def ask(self, question: Question[T]) -> T | None:
        """Return the answer, ``None`` where there is no row.

        Asks once more where the connection broke: a question changes nothing.

        Raises:
            OperationalError: Postgres cannot be reached, as SQLAlchemy says it.
        """
        async with self._turns:
            try:
                row = await self._row(question)
            except psycopg.OperationalError as error:
                raise OperationalError(None, None, error) from error
        return None if row is None else question.read(row)

    async def _row(self, question: Question[T]) -> Row | None:
        connection = self._idle.pop() if self._idle else await self._connect()
        try:
            return await self._row_by(connection, question)
        except psycopg.OperationalError:
            if not connection.broken:
                raise
        return await self._row_by(await self._connect(), question)

    async def _row_by(self, connection: Connection, question: Question[T]) -> Row | None:
        try:
            cursor = await connection.execute(question.sql, question.values)
            row = await cursor.fetchone()
        except BaseException:  # cancelled too: what it answers then belongs to nobody
            await connection.close()
            raise
        self._idle.append(connection)
        return row

    async def _connect(self) -> Connection:
        return await psycopg.AsyncConnection.connect(self._conninfo, autocommit=True)

    async def close(self) -> None:
        """Close all connections; nobody asks any more."""
        while self._idle:
            await self._idle.pop().close()
