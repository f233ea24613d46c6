"""Constant load from raw sockets, and an account of every request."""

import asyncio
import json
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Self


@dataclass
class Load:
    """Sends requests over kept-alive connections until it is told to stop.

    Attributes:
        answers: (status, version that answered) of every request.
        broken: requests that got no answer.
    """

    port: int
    path: str
    connections: int = 8
    pause_s: float = 0.005
    headers: dict[str, str] = field(default_factory=dict)
    answers: Counter[tuple[int, str]] = field(default_factory=Counter)
    broken: int = 0
    bodies: list[dict[str, object]] = field(default_factory=list)
    _stopped: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    @property
    def total(self) -> int:
        return sum(self.answers.values()) + self.broken

    @property
    def lost(self) -> dict[object, int]:
        """What did not end with 200."""
        lost: dict[object, int] = {k: n for k, n in self.answers.items() if k[0] != 200}
        return lost | ({"broken": self.broken} if self.broken else {})

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopped.set()
        assert self._thread is not None
        self._thread.join()

    async def _run(self) -> None:
        await asyncio.gather(*(self._client() for _ in range(self.connections)))

    async def _client(self) -> None:
        while not self._stopped.is_set():
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                self.broken += 1
                await asyncio.sleep(0.05)
                continue
            try:
                while not self._stopped.is_set():
                    status, version, _ = await request(reader, writer, self.path, self.headers)
                    self.answers[status, version] += 1
                    await asyncio.sleep(self.pause_s)
            except (OSError, asyncio.IncompleteReadError):
                self.broken += 1
            finally:
                writer.close()


async def request(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    path: str,
    headers: dict[str, str],
) -> tuple[int, str, bytes]:
    """Send one GET; return status, version that answered, body."""
    extra = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"GET {path} HTTP/1.1\r\nhost: gateway\r\n{extra}\r\n".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    answer = {k.lower(): v for k, v in (line.split(": ", 1) for line in head[1:] if line)}
    body = await reader.readexactly(int(answer.get("content-length", 0)))
    return int(head[0].split(" ")[1]), answer.get("x-ai-model-version", ""), body


def burst(
    port: int, path: str, headers: list[dict[str, str]], *, connections: int = 16
) -> list[tuple[int, str]]:
    """Send one request for each of ``headers``; return (status, version) in their order."""
    results: list[tuple[int, str]] = [(0, "")] * len(headers)

    async def client(numbers: range) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in numbers:
            status, version, _ = await request(reader, writer, path, headers[number])
            results[number] = (status, version)
        writer.close()

    async def run() -> None:
        shares = (range(start, len(headers), connections) for start in range(connections))
        await asyncio.gather(*(client(share) for share in shares))

    asyncio.run(run())
    return results


def body_of(raw: bytes) -> dict[str, object]:
    body: dict[str, object] = json.loads(raw)
    return body
