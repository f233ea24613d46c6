"""A real HTTP proxy in front of a registry that breaks answers on demand."""

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

Fault = Callable[["Answer"], None]


@dataclass
class Answer:
    """An upstream answer, changed before it is passed on.

    ``send`` bytes of the body go out, then the connection is closed after ``stall_s``.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    send: int | None = None
    stall_s: float = 0.0


@dataclass
class FaultyProxy:
    """What is to go wrong: ``fault`` changes the next ``times`` answers to paths with ``only``."""

    upstream: str
    endpoint: str = ""
    fault: Fault | None = None
    times: int = 10**9
    only: str = "/v1/objects/"
    seen: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def break_answers(self, fault: Fault, *, times: int = 10**9, only: str = "/v1/objects/"):
        self.fault, self.times, self.only = fault, times, only

    def change(self, path: str, answer: Answer) -> None:
        with self._lock:
            applies = self.fault is not None and self.only in path and self.times > 0
            self.times -= applies
        if applies:
            assert self.fault is not None
            self.fault(answer)


@contextmanager
def faulty_proxy(upstream: str) -> Iterator[FaultyProxy]:
    """Run a proxy; its signed URLs lead through it too, since they follow the Host header."""
    proxy = FaultyProxy(upstream)

    class Handler(_Handler):
        state = proxy

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    proxy.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    state: FaultyProxy
    protocol_version = "HTTP/1.1"

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {key.lower(): value for key, value in self.headers.items()}
        self.state.seen.append((self.command, self.path, headers))
        answer = self._ask(body, headers)
        self.state.change(self.path, answer)
        self._answer(answer)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on  # noqa: N815 - http.server's names

    def _ask(self, body: bytes, headers: dict[str, str]) -> Answer:
        connection = http.client.HTTPConnection(urlsplit(self.state.upstream).netloc, timeout=60)
        connection.request(self.command, self.path, body=body, headers=headers)
        response = connection.getresponse()
        kept = {key.lower(): value for key, value in response.getheaders()}
        answer = Answer(response.status, kept, response.read())
        connection.close()
        return answer

    def _answer(self, answer: Answer) -> None:
        self.send_response_only(answer.status)
        answer.headers.pop("transfer-encoding", None)
        if answer.status != 204:
            answer.headers.setdefault("content-length", str(len(answer.body)))
        for key, value in answer.headers.items():
            self.send_header(key, value)
        self.end_headers()
        try:
            self.wfile.write(answer.body[: answer.send])
            if answer.send is not None:
                self.wfile.flush()
                time.sleep(answer.stall_s)
                self.close_connection = True
        except OSError:
            self.close_connection = True

    def log_message(self, *_args: Any) -> None:
        pass
