"""A proxy in front of a store that counts what the store sends, and misbehaves as stores do.

It answers 503 SlowDown above a number of requests at once, resets connections in the middle of a
body, and stalls bodies for ever, each by seeded chance. What it forwards it does not change, so
that signatures stay valid. On the standard library alone, so that benchmarks can run it as a
process: ``python -m tests.services.throttle_proxy ORIGIN`` prints its URL, and answers its counts
at ``/-/counts``.
"""

import argparse
import asyncio
import json
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Literal
from urllib.parse import urlsplit

_PIECE = 256 * 1024
_HEAD_LIMIT = 64 * 1024
_SLOW_DOWN = b"""<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"""


@dataclass(frozen=True, slots=True)
class Faults:
    """How the proxy misbehaves; as it stands, not at all.

    Attributes:
        max_concurrent: requests at once above which the answer is 503 SlowDown.
        reset_rate: share of answers whose connection is reset in the middle of the body.
        stall_rate: share of answers that stop in the middle of the body and keep silent.
        first_byte_s: wait before each answer.
        seed: of the chances.
    """

    max_concurrent: int | None = None
    reset_rate: float = 0.0
    stall_rate: float = 0.0
    first_byte_s: float = 0.0
    seed: int = 0


@dataclass(slots=True)
class Counts:
    """What was seen so far.

    Attributes:
        body_bytes: bytes of bodies that the origin's answers carried to clients.
    """

    requests: int = 0
    body_bytes: int = 0
    slow_downs: int = 0
    resets: int = 0
    stalls: int = 0
    at_once: int = 0
    most_at_once: int = 0


@dataclass(frozen=True, slots=True)
class _Head:
    """The first lines of a request or an answer."""

    raw: bytes
    first_line: str
    headers: dict[str, str]

    @property
    def status(self) -> int:
        return int(self.first_line.split()[1])

    @property
    def length(self) -> int | None:
        value = self.headers.get("content-length")
        return None if value is None else int(value)


@dataclass(slots=True)
class Throttle:
    """The running proxy; ``faults`` may be replaced while it runs.

    Attributes:
        origin: base URL of the store.
        refuse_next: this many requests are reset before they are answered.
        url: where it listens.
        close: ends it, with all that is under way.
    """

    origin: str
    faults: Faults
    counts: Counts = field(default_factory=Counts)
    refuse_next: int = 0
    url: str = ""
    close: Callable[[], None] = lambda: None
    chances: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        self.chances.seed(self.faults.seed)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one client's connection."""
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._answer(reader, writer):
                pass
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; ``False`` when the connection is done."""
        request = await _read_head(reader)
        if request.first_line.startswith("GET /-/counts "):
            return await _send_counts(self.counts, writer)
        if self.refuse_next:
            self.refuse_next -= 1
            writer.transport.abort()
            return False
        counts = self.counts
        counts.requests += 1
        counts.at_once += 1
        counts.most_at_once = max(counts.most_at_once, counts.at_once)
        try:
            limit = self.faults.max_concurrent
            if limit is not None and counts.at_once > limit:
                counts.slow_downs += 1
                return await _slow_down(request, writer)
            return await self._forward(request, reader, writer)
        finally:
            counts.at_once -= 1

    async def _forward(
        self, request: _Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        await asyncio.sleep(self.faults.first_byte_s)
        place = urlsplit(self.origin)
        answers, requests = await asyncio.open_connection(
            place.hostname, place.port, limit=_HEAD_LIMIT
        )
        sending = asyncio.ensure_future(_send(request, reader, requests))
        try:
            head = await _read_head(answers)
            while head.status == 100:
                writer.write(head.raw)
                head = await _read_head(answers)
            writer.write(head.raw)
            if request.first_line.startswith("HEAD ") or head.status in (204, 304):
                await writer.drain()
                return True
            return await self._send_body(head.length, answers, reader, writer)
        finally:
            sending.cancel()
            requests.close()

    async def _send_body(
        self,
        left: int | None,
        answers: asyncio.StreamReader,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Pass an answer's body on; without a length it ends with the connection."""
        fault = self._fault() if left else None
        fault_at = left // 2 if fault and left else -1
        while left is None or left > 0:
            piece = await answers.read(_PIECE if left is None else min(_PIECE, left))
            if not piece:
                return False
            self.counts.body_bytes += len(piece)  # before the client can have them, and look
            writer.write(piece)
            await writer.drain()
            left = None if left is None else left - len(piece)
            if fault and left is not None and left <= fault_at:
                return await self._misbehave(fault, reader, writer)
        return left is not None

    def _fault(self) -> Literal["reset", "stall"] | None:
        chance = self.chances.random()
        if chance < self.faults.reset_rate:
            return "reset"
        return "stall" if chance < self.faults.reset_rate + self.faults.stall_rate else None

    async def _misbehave(
        self,
        fault: Literal["reset", "stall"],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Reset the connection, or keep silent until the client goes away."""
        if fault == "reset":
            self.counts.resets += 1
            writer.transport.abort()
            return False
        self.counts.stalls += 1
        while await reader.read(_HEAD_LIMIT):
            pass
        return False


async def listen(proxy: Throttle) -> asyncio.Server:
    """Listen on a free port, which ``proxy.url`` then has."""
    server = await asyncio.start_server(
        proxy.serve, "127.0.0.1", 0, limit=_HEAD_LIMIT, backlog=1024
    )
    proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    return server


async def end(server: asyncio.Server) -> None:
    """Stop listening and drop what is under way."""
    server.close()
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0)  # lets transports close their sockets


async def _read_head(reader: asyncio.StreamReader) -> _Head:
    raw = await reader.readuntil(b"\r\n\r\n")
    first_line, *lines = raw.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    return _Head(raw, first_line, headers)


async def _send(
    request: _Head, reader: asyncio.StreamReader, requests: asyncio.StreamWriter
) -> None:
    """Send a request and its body on."""
    requests.write(request.raw)
    left = request.length or 0
    while left:
        piece = await reader.read(min(_PIECE, left))
        if not piece:
            raise ConnectionResetError
        requests.write(piece)
        await requests.drain()
        left -= len(piece)


async def _slow_down(request: _Head, writer: asyncio.StreamWriter) -> bool:
    """Answer 503; a request with a body ends its connection, as it was not read."""
    close = bool(request.length)
    writer.write(
        b"HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\n"
        + (b"Connection: close\r\n" if close else b"")
        + f"Content-Length: {len(_SLOW_DOWN)}\r\n\r\n".encode()
    )
    writer.write(b"" if request.first_line.startswith("HEAD ") else _SLOW_DOWN)
    await writer.drain()
    return not close


async def _send_counts(counts: Counts, writer: asyncio.StreamWriter) -> bool:
    body = json.dumps(asdict(counts)).encode()
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()
    return True


def main() -> None:
    """Run one proxy until the process is ended."""
    parser = argparse.ArgumentParser(prog="python -m tests.services.throttle_proxy")
    parser.add_argument("origin", help="base URL of the store")
    parser.add_argument("--max-concurrent", type=int)
    parser.add_argument("--reset-rate", type=float, default=0.0)
    parser.add_argument("--stall-rate", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    options = vars(parser.parse_args())
    proxy = Throttle(options.pop("origin"), Faults(**options))

    async def run() -> None:
        server = await listen(proxy)
        print(proxy.url, flush=True)
        await server.serve_forever()

    asyncio.run(run())


if __name__ == "__main__":
    main()
