"""Constant load on a gateway until stdin closes; prints what became of every request as JSON.

Each request is ``[sent at, status, version that answered]``; status 0 is a request that got no
answer. Times are the machine's monotonic clock, the same in every process.
"""

import argparse
import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable

Seen = list[tuple[float, int, str]]


async def _client(options: argparse.Namespace, ended: Callable[[], bool], seen: Seen) -> None:
    while not ended():
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", options.port)
        except OSError:
            seen.append((time.monotonic(), 0, ""))
            await asyncio.sleep(options.pause)
            continue
        while not ended():
            sent_at = time.monotonic()
            try:
                status, version = await _request(reader, writer, options.path)
            except (OSError, asyncio.IncompleteReadError):
                seen.append((sent_at, 0, ""))
                break
            seen.append((sent_at, status, version))
            await asyncio.sleep(options.pause)
        writer.close()


async def _request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str
) -> tuple[int, str]:
    writer.write(f"GET {path} HTTP/1.1\r\nhost: gateway\r\n\r\n".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    fields = {k.lower(): v for k, v in (line.split(": ", 1) for line in head[1:] if line)}
    body = await reader.readexactly(int(fields.get("content-length", 0)))
    status = int(head[0].split(" ")[1])
    return status, json.loads(body)["version"] if status == 200 else ""


async def _run(options: argparse.Namespace) -> Seen:
    closed = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), closed.set()), daemon=True).start()
    seen: Seen = []

    def ended() -> bool:
        return len(seen) >= options.requests or closed.is_set()

    await asyncio.gather(*(_client(options, ended, seen) for _ in range(options.connections)))
    return seen


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--path", required=True)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--pause", type=float, default=0.02, help="seconds between two requests")
    parser.add_argument("--requests", type=int, default=2**62)
    print(json.dumps(asyncio.run(_run(parser.parse_args()))))
