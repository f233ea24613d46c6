"""An httpx transport over urllib3.

httpx's own spends four times the processor time per byte, because its parser
copies every piece under the interpreter's lock. Here bytes go from the socket
into a buffer of the caller's by ``recv_into``: ``read_into(response, buffer)``.
Proxies come from the environment (``NO_PROXY`` too), trust roots from a file that is named, else
from httpx's ``SSL_CERT_FILE`` and ``SSL_CERT_DIR``. Redirects and retries are left to the callers.
"""

import http.client
import io
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast
from urllib.parse import unquote

import httpx
import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NewConnectionError,
    ProxyError,
    ReadTimeoutError,
    SSLError,
)
from urllib3.response import BaseHTTPResponse

from ai_model.errors import NetworkError, UntrustedCertificate

FILL_S = 0.1
"""How long a buffer is filled: on a slow network it is handed over with what is there."""
ReadInto = Callable[[memoryview], int]
_READ_INTO = "ai_model.read_into"


class Transport(httpx.BaseTransport):
    """Sends httpx requests through pooled urllib3 connections. Safe to use from threads."""

    def __init__(self, *, connections: int, ca_file: str | None = None) -> None:
        self._connections = connections
        self._ca_file = ca_file
        self._managers: dict[tuple[str, str | None], urllib3.PoolManager] = {}
        self._proxies: dict[tuple[str, str, int | None], str | None] = {}
        self._lock = threading.Lock()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request and return its answer, body unread.

        Raises:
            httpx.TransportError: what went wrong, in httpx's words.
            UntrustedCertificate: the server is not who it should be.
        """
        timeout = request.extensions.get("timeout", {})
        with _in_httpx_words(request):
            send, target = self._way_to(request.url)
            answer = send(
                request.method,
                target,
                body=_body_of(request),
                headers=_headers_of(request),
                timeout=urllib3.Timeout(connect=timeout.get("connect"), read=timeout.get("read")),
                redirect=False,
                retries=False,
                preload_content=False,
                decode_content=False,
            )
        if answer.status == 407:
            answer.drain_conn()
            raise NetworkError(
                f"The proxy on the way to {_where(request.url)} wants another user or password"
                " (407).",
                way_out="Write them into HTTPS_PROXY or HTTP_PROXY: http://user:password@host:port",
            )
        body = _Body(answer, request)
        return httpx.Response(
            answer.status,
            headers=list(answer.headers.items()),
            stream=body,
            extensions={_READ_INTO: body.read_into},
        )

    def close(self) -> None:
        """Close every pooled connection."""
        with self._lock:
            for manager in self._managers.values():
                manager.clear()
            self._managers.clear()
            self._proxies.clear()

    def _way_to(self, url: httpx.URL) -> tuple[Callable[..., BaseHTTPResponse], str]:
        """Return what sends a request to a host, and how it wants to be told of the rest of a URL.

        Without a proxy that is the host's own pool: signed URLs are long, and a manager would
        take apart what httpx has taken apart already.
        """
        place = (url.scheme, url.host, url.port)
        with self._lock:
            if place not in self._proxies:
                self._proxies[place] = _proxy_for(url)
            proxy = self._proxies[place]
            if (url.scheme, proxy) not in self._managers:
                self._managers[url.scheme, proxy] = self._new_manager(url.scheme, proxy)
            manager = self._managers[url.scheme, proxy]
        if proxy is not None:
            return cast("Callable[..., BaseHTTPResponse]", manager.urlopen), str(url)
        host = f"[{url.host}]" if ":" in url.host else url.host
        pool = manager.connection_from_host(host, url.port, url.scheme)
        return pool.urlopen, url.raw_path.decode("ascii")

    def _new_manager(self, scheme: str, proxy: str | None) -> urllib3.PoolManager:
        limits: dict[str, Any] = {"maxsize": self._connections, "num_pools": 16}
        if scheme == "https":  # only then: loading the trust roots takes 20 ms
            limits["ssl_context"] = _trust(self._ca_file)
        if proxy is None:
            return urllib3.PoolManager(**limits)
        return urllib3.ProxyManager(proxy, proxy_headers=_proxy_headers(proxy), **limits)


def read_into(response: httpx.Response, buffer: memoryview) -> int:
    """Fill the start of ``buffer`` from a streamed response's body, or what comes in ``FILL_S``.

    Returns:
        How many bytes were read, 0 at the end of the body.

    Raises:
        httpx.TransportError: the connection broke or stalled; what came before was returned.
    """
    return cast("ReadInto", response.extensions[_READ_INTO])(buffer)


class _Body(httpx.SyncByteStream):
    """The body of an answer that urllib3 received."""

    def __init__(self, answer: BaseHTTPResponse, request: httpx.Request) -> None:
        self._answer = answer
        self._request = request
        self._raw = cast("http.client.HTTPResponse", cast("Any", answer)._fp)
        self._failure: Exception | None = None
        received = cast("Any", self._raw)
        if received.fp is not None and not received.chunked:  # of a chunk, all is read at once
            received.fp = _OneReceive(received.fp)

    def __iter__(self) -> Iterator[bytes]:
        with _in_httpx_words(self._request):
            yield from self._answer.stream(256 * 1024, decode_content=False)

    def read_into(self, buffer: memoryview) -> int:
        with _in_httpx_words(self._request):
            return self._fill(buffer)

    def _fill(self, buffer: memoryview) -> int:
        if self._failure is not None:
            raise self._failure
        filled, until_s = 0, time.monotonic() + FILL_S
        while True:
            try:
                # urllib3's own readinto reads into bytes first and copies
                count = self._raw.readinto(buffer[filled:])
            except Exception as failure:
                if not filled:
                    raise
                self._failure = failure
                return filled
            filled += count
            if not count or filled == len(buffer) or time.monotonic() >= until_s:
                return filled

    def close(self) -> None:
        if not self._raw.isclosed():  # bytes are left on the wire: nobody may reuse it
            self._answer.close()
        self._answer.release_conn()


class _OneReceive:
    """What a connection sends, where ``readinto`` brings what one receive does.

    The buffered reader's own waits until all that was asked for is there: more system calls, and
    what came before the connection broke is lost.
    """

    def __init__(self, received: io.BufferedReader) -> None:
        self._received = received
        self.readinto = received.readinto1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._received, name)


def _trust(ca_file: str | None) -> ssl.SSLContext:
    """Return a context that trusts the authorities in a file, else those of the environment."""
    try:
        if ca_file is not None:
            return ssl.create_default_context(cafile=ca_file)
        return httpx.create_ssl_context()
    except OSError as error:  # what is in it is told by an OSError too
        named = ca_file or "SSL_CERT_FILE or SSL_CERT_DIR"
        raise NetworkError(f"No certificates can be read from {named}: {error}.") from error


def _headers_of(request: httpx.Request) -> urllib3.HTTPHeaderDict:
    """Return the headers, those that urllib3 adds for a proxy written as it writes them.

    It compares them by case, and would send a second ``Host``, which servers refuse.
    """
    names = {"host": "Host", "accept": "Accept"}
    items = request.headers.multi_items()
    return urllib3.HTTPHeaderDict((names.get(name, name), value) for name, value in items)


def _body_of(request: httpx.Request) -> Any:
    """Return the body as urllib3 takes it; ``None`` where there is none."""
    if isinstance(request.stream, httpx.ByteStream):
        return request.read() or None
    return request.stream


def _proxy_for(url: httpx.URL) -> str | None:
    proxies = urllib.request.getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    where = f"{url.host}:{url.port}" if url.port else url.host
    if not proxy or urllib.request.proxy_bypass(where):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _proxy_headers(proxy: str) -> dict[str, str] | None:
    auth = urllib3.util.parse_url(proxy).auth
    return urllib3.make_headers(proxy_basic_auth=unquote(auth)) if auth else None


def _where(url: httpx.URL) -> str:
    """Return host and port for a sentence, and the proxy on the way without its password."""
    where = f"{url.host}:{url.port or url.scheme}"
    proxy = _proxy_for(url)
    return f"{where} by the proxy {urllib3.util.parse_url(proxy).netloc}" if proxy else where


@contextmanager
def _in_httpx_words(request: httpx.Request) -> Iterator[None]:
    """Translate what urllib3 and sockets raise."""
    try:
        yield
    except (HTTPError, http.client.HTTPException, OSError) as error:
        where = _where(request.url)
        if (untrusted := _untrusted(error)) is not None:
            raise UntrustedCertificate(where, untrusted.verify_message) from error
        raise _kind_of(error)(f"{_words_of(error)} ({where})", request=request) from error


def _untrusted(error: BaseException) -> ssl.SSLCertVerificationError | None:
    """Return what says that a certificate is not to be trusted, out of the wrapping. Pure."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error
    inner = error.__cause__ or (error.args[-1] if error.args else None)
    return _untrusted(inner) if isinstance(inner, Exception) else None


def _words_of(error: BaseException) -> str:
    """Return what the system said, such as ``Connection refused``, without the wrapping. Pure."""
    if isinstance(error, ReadTimeoutError):
        return "No answer in time"
    inner = error.__cause__ or (error.args[-1] if error.args else None)
    if isinstance(inner, Exception):
        return _words_of(inner)
    said = error.strerror if isinstance(error, OSError) else None
    return said or str(error) or type(error).__name__


def _kind_of(error: Exception) -> type[httpx.TransportError]:
    if isinstance(error, ProxyError):
        return httpx.ProxyError
    if isinstance(error, NewConnectionError | SSLError):
        return httpx.ConnectError
    if isinstance(error, ConnectTimeoutError):
        return httpx.ConnectTimeout
    if isinstance(error, ReadTimeoutError | TimeoutError):
        return httpx.ReadTimeout
    return httpx.ReadError
