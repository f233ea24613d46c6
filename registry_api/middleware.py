"""Around every request: its id, bounds on its body, and an answer to what nobody caught.

Plain ASGI, so that streams pass through unbuffered.
"""

import logging
import re
import zlib
from dataclasses import dataclass
from random import Random

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from registry_api.access import Caller
from registry_api.errors import (
    Forbidden,
    InvalidRequest,
    PayloadTooLarge,
    RegistryError,
    Unauthenticated,
)
from registry_api.problems import known_error, problem_response
from registry_api.requests import bearer_secret, caller_with

REQUEST_ID_HEADER = "X-Request-Id"
MAX_ANONYMOUS_BODY = 64 * 1024
"""Nobody is made to hold more than this for a caller who shows no valid token."""
MAX_READER_BODY = 1024 * 1024
"""What a reader may send: gateways tell their extensions whenever they ask."""

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_STREAMED = re.compile(r"/v1/uploads/[^/]+/parts/[^/]+", re.ASCII)

logger = logging.getLogger("registry_api")


class RequestId:
    """Give each request an id, and each surprise an answer that carries it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._random = Random()  # noqa: S311 - an id, not a secret

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = Headers(scope=scope).get(REQUEST_ID_HEADER, "")
        # Nobody has to be kept from guessing it, so the kernel need not be asked for each.
        made = f"{self._random.getrandbits(128):032x}"
        request_id = given if _REQUEST_ID.fullmatch(given) else made
        scope["request_id"] = request_id
        started = False

        async def send_with_id(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                MutableHeaders(scope=message)[REQUEST_ID_HEADER] = request_id
            await send(message)

        try:
            await self.app(scope, receive, send_with_id)
        except Exception:  # the last one who can answer
            logger.exception("request %s failed: %s %s", request_id, scope["method"], scope["path"])
            if started:
                raise
            surprise = RegistryError("the service failed; its log has more under this request id")
            await problem_response(surprise.problem(request_id))(scope, receive, send_with_id)


@dataclass(frozen=True, slots=True)
class _Limit:
    """How many bytes a body may have unpacked, and what is said of a larger one."""

    size: int
    refusal: RegistryError


class BoundedBody:
    """Read a body up to a limit before anything looks at it, and unpack gzip within the same limit.

    How large it may be depends on who sends it, so whoever wants to send much is looked up first.

    Parts of uploads pass through: they are streamed and bounded by their size.
    """

    def __init__(self, app: ASGIApp, max_body_bytes: int) -> None:
        self.app = app
        self.max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or _STREAMED.fullmatch(scope["path"]):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if "content-length" not in headers and "transfer-encoding" not in headers:
            await self.app(scope, receive, send)  # no body, as of most requests
            return
        try:
            body = await self._read(headers, await self._limit(scope, headers), receive)
        except Exception as error:
            known = known_error(error)
            if known is None:
                raise
            answer = problem_response(known.problem(scope.get("request_id", "")), known.headers)
            answer.headers["Connection"] = "close"  # the rest of the body is not read
            await answer(scope, receive, send)
            return
        if body is None:
            return
        scope["headers"] = [
            (name, value) for name, value in scope["headers"] if name != b"content-encoding"
        ]
        sent = False

        async def replay() -> Message:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, replay, send)

    async def _limit(self, scope: Scope, headers: Headers) -> _Limit:
        """Return the limit; small plain bodies, as of most requests, are for everybody."""
        anonymous = _limit_of(MAX_ANONYMOUS_BODY)
        secret = bearer_secret(headers)
        if secret is None or _is_small(headers):
            return anonymous
        try:
            caller = await caller_with(scope["app"], secret)
        except Unauthenticated as error:
            return _Limit(anonymous.size, error)
        return self._limit_for(caller)

    def _limit_for(self, caller: Caller) -> _Limit:
        try:
            caller.require("writer")
        except Forbidden as error:
            return _Limit(MAX_READER_BODY, error)
        return _limit_of(self.max_body_bytes)

    async def _read(self, headers: Headers, limit: _Limit, receive: Receive) -> bytes | None:
        """Return the whole body, ``None`` when the client has gone."""
        unpack = _decoder(headers.get("content-encoding", "identity"))
        pieces: list[bytes] = []
        total = 0
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            piece = unpack.decompress(message.get("body", b""), limit.size - total + 1)
            more = message.get("more_body", False)
            total += len(piece)
            pieces.append(piece)
            if total > limit.size:
                raise limit.refusal
        if not unpack.eof and total + unpack.taken:
            raise InvalidRequest("the gzip body ends too early")
        return b"".join(pieces)


def _limit_of(size: int) -> _Limit:
    return _Limit(size, PayloadTooLarge(f"the body is larger than {size} bytes"))


def _is_small(headers: Headers) -> bool:
    """Say whether a body cannot be larger than anybody's may be."""
    length = headers.get("content-length", "")
    packed = "content-encoding" in headers
    return not packed and length.isdecimal() and int(length[:20]) <= MAX_ANONYMOUS_BODY


class _Plain:
    """A body that is not packed."""

    eof = True
    taken = 0

    def decompress(self, data: bytes, limit: int) -> bytes:
        """Return ``data``, cut behind ``limit`` bytes."""
        return data[:limit]


class _Gzip:
    """A gzip body, unpacked no further than asked."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)
        self.taken = 0

    @property
    def eof(self) -> bool:
        """Whether the end of the gzip stream was seen."""
        return self._inner.eof

    def decompress(self, data: bytes, limit: int) -> bytes:
        """Return at most ``limit`` unpacked bytes."""
        self.taken += len(data)
        try:
            piece = self._inner.decompress(data, limit)
        except zlib.error as error:
            raise InvalidRequest(f"the body is not gzip: {error}") from error
        if self._inner.unused_data:
            raise InvalidRequest("bytes stand behind the end of the gzip body")
        return piece


def _decoder(encoding: str) -> _Plain | _Gzip:
    match encoding.strip().lower():
        case "identity" | "":
            return _Plain()
        case "gzip":
            return _Gzip()
    raise InvalidRequest(f"Content-Encoding {encoding[:50]!r} is not known; gzip is")
