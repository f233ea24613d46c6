"""A small real inference server that says which version answered; quick to start.

Any path answers JSON ``{"server", "version", "path", "model"}``, where the version is the one
the gateway asked for. ``/slow?s=N`` streams N chunks, one each 0.1 s, ``/count`` says how many
requests were answered. A server asked for a version that it has not loaded answers 421, which
a test takes for a misroute.

A sidecar loads and unloads by ``POST /hook`` and looks at ``/ready/VERSION``; ``/hooks`` lists
what was asked. ``/close`` lets loads wait until ``/open``.
"""

import argparse
import asyncio
import json


class _Http(asyncio.Protocol):
    """Just enough HTTP/1.1: keep-alive, bodies by Content-Length."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while b"\r\n\r\n" in self.buffer:
            head, _, rest = self.buffer.partition(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")
            headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:])}
            length = int(headers.get("content-length", 0))
            if len(rest) < length:
                return
            self.buffer = rest[length:]
            method, path, _ = lines[0].split(" ")
            if (method, path) == ("POST", "/hook"):
                said = json.loads(rest[:length])
                asyncio.get_running_loop().create_task(self.hook(said))
            elif (told := self.told(path)) is not None:
                self.say(*told)
            else:
                self.answer(path, headers)

    def told(self, path: str) -> tuple[bytes, bytes] | None:
        """Answer what is not a request for a prediction."""
        options = self.options
        if path == "/count":
            return b"200 OK", str(options.count).encode()
        if path == "/hooks":
            return b"200 OK", json.dumps(options.hooks).encode()
        if path in ("/open", "/close"):
            (options.gate.set if path == "/open" else options.gate.clear)()
            return b"200 OK", b""
        if path.startswith("/ready/"):
            ready = path.rpartition("/")[2] in options.versions
            return (b"200 OK" if ready else b"503 Service Unavailable"), b""
        return None

    def say(self, status: bytes, body: bytes) -> None:
        self.transport.write(
            b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body)
        )

    async def hook(self, said: dict[str, str]) -> None:
        self.options.hooks.append(said)
        if said["action"] == "load":
            await self.options.gate.wait()
            self.options.versions.append(said["version"])
        else:
            self.options.versions.remove(said["version"])
        self.say(b"200 OK", b"")

    def answer(self, path: str, headers: dict[str, str]) -> None:
        asked = headers.get("x-ai-model-version", "")
        self.options.count += 1
        failing = self.options.fail_every and self.options.count % self.options.fail_every == 0
        status = b"200 OK"
        if asked not in self.options.versions:
            status = b"421 Misdirected Request"
        elif failing:
            status = b"500 Internal Server Error"
        if path.startswith("/slow"):
            asyncio.get_running_loop().create_task(self.stream(int(path.partition("s=")[2])))
            return
        body = json.dumps(
            {"server": self.options.port, "version": asked, "path": path,
             "model": headers.get("x-ai-model")}
        ).encode()  # fmt: skip
        answer = b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body)
        if self.options.delay_ms:
            loop = asyncio.get_running_loop()
            loop.call_later(self.options.delay_ms / 1000, self.transport.write, answer)
        else:
            self.transport.write(answer)

    async def stream(self, chunks: int) -> None:
        self.transport.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(chunks):
            await asyncio.sleep(0.1)
            self.transport.write(b"5\r\nchunk\r\n")
        self.transport.write(b"0\r\n\r\n")


async def _serve(options: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    options.gate = asyncio.Event()
    options.gate.set()
    server = await loop.create_server(lambda: _Http(options), "127.0.0.1", options.port)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("versions", nargs="*")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--fail-every", type=int, default=0)
    parser.add_argument("--delay-ms", type=int, default=0)
    arguments = parser.parse_args()
    arguments.count, arguments.hooks = 0, []
    asyncio.run(_serve(arguments))
