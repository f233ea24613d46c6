"""A network cable between a client and a server, that can be pulled out."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator

from tests.services.nginx import free_port

CHUNK = 65536


class Cable:
    """Forwards TCP to ``port``. While it is out, bytes go nowhere and nobody is told."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.port = free_port()
        self._loop = asyncio.new_event_loop()
        self._plugged = asyncio.Event()
        self._plugged.set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def unplug(self) -> None:
        self._loop.call_soon_threadsafe(self._plugged.clear)

    def plug(self) -> None:
        self._loop.call_soon_threadsafe(self._plugged.set)

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connect, "127.0.0.1", self.port)
        async with server:
            with contextlib.suppress(asyncio.CancelledError):
                await server.serve_forever()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._plugged.wait()
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self._pump(reader, back), self._pump(there, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(CHUNK):
                await self._plugged.wait()
                writer.write(chunk)
                await writer.drain()
        writer.close()


@contextlib.contextmanager
def cable_to(port: int) -> Iterator[Cable]:
    """Lay a cable to ``127.0.0.1:port``."""
    cable = Cable(port)
    stopped = asyncio.Event()

    async def run() -> None:
        serving = asyncio.create_task(cable._serve())
        await stopped.wait()
        serving.cancel()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    thread = threading.Thread(target=lambda: cable._loop.run_until_complete(run()), daemon=True)
    thread.start()
    try:
        yield cable
    finally:
        cable._loop.call_soon_threadsafe(stopped.set)
        thread.join()
        cable._loop.close()
