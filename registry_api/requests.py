"""What handlers ask for: a transaction, the caller, a strictly read body.

The session's scope is the function, so that it commits before the answer
leaves: a failed commit must not say 200.
"""

import asyncio
import json
from asyncio import Semaphore
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Concatenate, NoReturn, ParamSpec, Self, TypeVar

from fastapi import Depends, FastAPI, Header, Request
from fastapi.exceptions import HTTPException
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from fastapi.security.utils import get_authorization_scheme_param
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor
from starlette.datastructures import Headers
from starlette.responses import Response

from ai_model_format.digest import Digest
from ai_model_format.formats import strict_json
from ai_model_format.names import RESERVED_NAMES
from ai_model_format.wire import ModelId
from registry_api.access import ANONYMOUS, Caller, find_token, hash_of
from registry_api.catalog.missing import not_found
from registry_api.db.questions import LoopReader, Question
from registry_api.db.session import Driver, driver_reading, reading, transaction
from registry_api.errors import Forbidden, Unauthenticated
from registry_api.get.edge import Edge, choose_edge, client_address
from registry_api.parts import Parts

MAX_MARKS = strict_json.MAX_MARKS + 1_000_000
"""Of brackets and commas in a body: as many as a manifest may have, and metadata besides. Each
may cost an object in memory."""


class ModelIdConvertor(Convertor[str]):
    """A model id in a path, its slash written plainly.

    The second component is none of the words that follow a model id in URLs.
    """

    regex = rf"[^/]+(?:/(?!(?:{'|'.join(sorted(RESERVED_NAMES))})(?:/|$))[^/]+)?"

    def convert(self, value: str) -> str:
        """Return the id as it stands; its rules are checked as those of other parameters."""
        return value

    def to_string(self, value: str) -> str:
        """Return the id as it stands."""
        return value


register_url_convertor("model_id", ModelIdConvertor())


class StrictRequest(Request):
    """A request whose JSON is what RFC 8259 has, read off the event loop."""

    async def json(self) -> Any:
        """Parse the body.

        Raises:
            HTTPException: 422, it is not JSON, or nests too deep to read.
        """
        return await run_in_threadpool(_parse_json, await self.body())


class StrictRoute(APIRoute):
    """A route that reads its body by ``StrictRequest``."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler."""
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            return await handle(StrictRequest(request.scope, request.receive))

        return handle_strictly


def _parse_json(body: bytes) -> Any:
    if sum(body.count(mark) for mark in (b"[", b"{", b",")) > MAX_MARKS:
        raise HTTPException(413, f"the body has more than {MAX_MARKS} brackets and commas")
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise HTTPException(422, "the body nests too deep") from error
    except ValueError as error:
        raise HTTPException(422, f"the body is not JSON: {str(error)[:200]}") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


async def get_parts(request: Request) -> Parts:
    """Return what this process opened at its start."""
    parts: Parts = request.app.state.parts
    return parts


PartsOf = Annotated[Parts, Depends(get_parts)]


async def wait_for_turn(request: Request) -> AsyncIterator[None]:
    """Wait until a connection to Postgres is free, without holding a thread meanwhile.

    Dependencies and handlers each borrow a thread from one pool. If requests waited for
    connections there, they would keep out those that have one and need a thread to go on.
    """
    async with request.app.state.turns:
        yield


Turn = Annotated[None, Depends(wait_for_turn, scope="function")]


def get_session(parts: PartsOf, _turn: Turn) -> Iterator[Session]:
    """Give a handler one transaction."""
    with transaction(parts.engine) as session:
        yield session


DbSession = Annotated[Session, Depends(get_session, scope="function")]

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class Reads:
    """Ask Postgres without a transaction: for handlers that only read.

    What a ref means is asked on the loop itself, all else in one stay in a thread. The threads
    are of their own, as many as there are turns: the loop hands work to them in half the time that
    anyio's take.
    """

    parts: Parts
    turns: Semaphore
    threads: Executor
    loop_reader: LoopReader

    @classmethod
    def of(cls, request: Request) -> Self:
        """Return the way to read of the service that a request came to."""
        state = request.app.state
        return cls(state.parts, state.turns, state.readers, state.loop_reader)

    async def version(
        self, question: Callable[[str, str], Question[T]], model_id: str, ref: str
    ) -> T:
        """Ask something of the version that a ref means.

        Raises:
            ModelNotFound: there is no such model.
            VersionNotFound: it has no such version.
            OperationalError: Postgres is away.
        """
        found = await self.loop_reader.ask(question(model_id, ref))
        if found is None:
            raise await self.by_driver(not_found, model_id, ref)
        return found

    async def __call__(
        self, question: Callable[Concatenate[Session, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call ``question`` with a session and what else it takes."""
        return await self._in_thread(reading, lambda s: question(s, *args, **kwargs))

    async def by_driver(
        self, question: Callable[Concatenate[Driver, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Do the same without SQLAlchemy, which takes longer than Postgres for one row."""
        return await self._in_thread(driver_reading, lambda d: question(d, *args, **kwargs))

    async def _in_thread(
        self, connect: Callable[[Engine], AbstractContextManager[C]], question: Callable[[C], T]
    ) -> T:
        loop = asyncio.get_running_loop()
        async with self.turns:
            return await loop.run_in_executor(
                self.threads, _ask, connect, self.parts.engine, question
            )


def _ask(
    connect: Callable[[Engine], AbstractContextManager[C]],
    engine: Engine,
    question: Callable[[C], T],
) -> T:
    """Ask, and once more where the connection broke meanwhile: a question changes nothing."""
    try:
        with connect(engine) as connection:
            return question(connection)
    except OperationalError as error:
        if not error.connection_invalidated:
            raise
    with connect(engine) as connection:
        return question(connection)


async def get_reads(request: Request) -> Reads:
    """Give a handler a way to read."""
    return Reads.of(request)


Read = Annotated[Reads, Depends(get_reads)]

bearer = HTTPBearer(auto_error=False, description="A token, made by `ai-model token create`")


async def get_caller(
    request: Request,
    parts: PartsOf,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
) -> Caller:
    """Return who sends the request.

    Raises:
        Unauthenticated: no token where one is needed, or one that is not valid.
    """
    if credentials is not None:
        return await caller_with(request.app, credentials.credentials)
    if parts.settings.anonymous_read:
        return ANONYMOUS
    raise Unauthenticated("send a token: Authorization: Bearer <token>")


def bearer_secret(headers: Headers) -> str | None:
    """Return the secret of the token that a request shows, read as ``HTTPBearer`` does. Pure."""
    scheme, secret = get_authorization_scheme_param(headers.get("authorization"))
    return secret if scheme.lower() == "bearer" else None


async def caller_with(app: FastAPI, secret: str) -> Caller:
    """Return the caller whose token has this secret.

    From what was learned a few seconds ago, else in a transaction of its own: a handler that
    waits or reads for long must not keep a connection to Postgres meanwhile.

    Raises:
        Unauthenticated: there is none, or it is not valid any more.
    """
    parts: Parts = app.state.parts
    secret_hash = hash_of(secret)
    known = parts.tokens.get(secret_hash)
    if known is not None:
        return known
    # Not a turn like a session's: the session may have come first, and twenty requests that
    # hold one turn and wait for another would wait for ever.
    async with app.state.authentications:
        return await run_in_threadpool(_authenticate, parts, secret_hash)


def _authenticate(parts: Parts, secret_hash: Digest) -> Caller:
    def look() -> tuple[Caller, datetime | None]:
        with transaction(parts.engine) as session:
            return find_token(session, secret_hash)

    return parts.tokens.fill(secret_hash, look)


AnyCaller = Annotated[Caller, Depends(get_caller)]


async def get_reader(model_id: ModelId, caller: AnyCaller) -> Caller:
    """Return a caller who may read the model in the path."""
    caller.require("reader", model_id)
    return caller


async def get_writer(model_id: ModelId, caller: AnyCaller) -> Caller:
    """Return a caller who may write the model in the path."""
    caller.require("writer", model_id)
    return caller


async def get_any_writer(caller: AnyCaller) -> Caller:
    """Return a caller who may write some model."""
    caller.require("writer")
    return caller


async def get_admin(caller: AnyCaller) -> Caller:
    """Return a caller who may do everything: who makes tokens could else make one for all models.

    Raises:
        Forbidden: the token is no admin's, or is not for all models.
    """
    caller.require("admin")
    if not caller.sees_all:
        raise Forbidden("this needs an admin's token for all models; yours is for some")
    return caller


Reader = Annotated[Caller, Depends(get_reader)]
Writer = Annotated[Caller, Depends(get_writer)]
AnyWriter = Annotated[Caller, Depends(get_any_writer)]
Admin = Annotated[Caller, Depends(get_admin)]


async def get_seed(
    request: Request,
    parts: PartsOf,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
    idempotency_key: Annotated[
        str | None,
        Header(
            min_length=1,
            max_length=255,
            pattern="^[!-~]+$",
            description="Names this creation: sent again with the same key, it makes nothing new",
        ),
    ] = None,
) -> bytes | None:
    """Return 64 bytes that are the same whenever the caller repeats a creation.

    Made of the caller's secret as well, which nobody keeps: who reads the database
    cannot make them again. ``None`` where the caller does not name the creation.
    """
    if idempotency_key is None or credentials is None:
        return None
    return parts.signer.derive(request.url.path, credentials.credentials, idempotency_key)


Seed = Annotated[bytes | None, Depends(get_seed)]


def base_url(request: Request, parts: Parts) -> str:
    """Return where the client reaches this service, without a slash at the end."""
    return (parts.settings.public_url or str(request.base_url)).rstrip("/")


def edge_for(request: Request, parts: Parts) -> Edge | None:
    """Return the edge of the client's network, ``None`` where it goes to the origin."""
    peer = request.client.host if request.client else None
    forwarded = request.headers.getlist("x-forwarded-for")
    trusted = parts.settings.trusted_proxies
    return choose_edge(parts.edges, client_address(peer, forwarded, trusted_proxies=trusted))
