"""An httpx transport over urllib3.

httpx's own spends four times the processor time per byte, because its parser
copies every piece under the interpreter's lock. Here bytes go from the socket
into a buffer of the caller's by ``recv_into``: ``read_into(response, buffer)``.
Proxies come from the environment (``NO_PROXY`` too), trust roots from httpx's
``SSL_CERT_FILE`` and ``SSL_CERT_DIR``. Redirects and retries are left to the callers.
"""

import http.client
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

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

ReadInto = Callable[[memoryview], int]
_READ_INTO = "ai_model.read_into"


class Transport(httpx.BaseTransport):
    """Sends httpx requests through pooled urllib3 connections. Safe to use from threads."""

    def __init__(self, *, connections: int) -> None:
        self._connections = connections
        self._managers: dict[tuple[str, str | None], urllib3.PoolManager] = {}
        self._lock = threading.Lock()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request and return its answer, body unread.

        Raises:
            httpx.TransportError: what went wrong, in httpx's words.
        """
        timeout = request.extensions.get("timeout", {})
        with _in_httpx_words(request):
            answer = self._manager_for(request.url).urlopen(
                request.method,
                str(request.url),
                body=_body_of(request),
                headers=urllib3.HTTPHeaderDict(request.headers.multi_items()),
                timeout=urllib3.Timeout(connect=timeout.get("connect"), read=timeout.get("read")),
                redirect=False,
                retries=False,
                preload_content=False,
                decode_content=False,
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

    def _manager_for(self, url: httpx.URL) -> urllib3.PoolManager:
        key = (url.scheme, _proxy_for(url))
        with self._lock:
            if key not in self._managers:
                self._managers[key] = self._new_manager(*key)
            return self._managers[key]

    def _new_manager(self, scheme: str, proxy: str | None) -> urllib3.PoolManager:
        limits: dict[str, Any] = {"maxsize": self._connections, "num_pools": 16}
        if scheme == "https":  # only then: loading the trust roots takes 20 ms
            limits["ssl_context"] = httpx.create_ssl_context()
        if proxy is None:
            return urllib3.PoolManager(**limits)
        return urllib3.ProxyManager(proxy, proxy_headers=_proxy_headers(proxy), **limits)


def read_into(response: httpx.Response, buffer: memoryview) -> int:
    """Fill the start of ``buffer`` from a streamed response's body.

    Returns:
        How many bytes were read, 0 at the end of the body.

    Raises:
        httpx.TransportError: the connection broke or stalled.
    """
    return cast("ReadInto", response.extensions[_READ_INTO])(buffer)


class _Body(httpx.SyncByteStream):
    """The body of an answer that urllib3 received."""

    def __init__(self, answer: BaseHTTPResponse, request: httpx.Request) -> None:
        self._answer = answer
        self._request = request
        self._raw = cast("http.client.HTTPResponse", cast("Any", answer)._fp)

    def __iter__(self) -> Iterator[bytes]:
        with _in_httpx_words(self._request):
            yield from self._answer.stream(256 * 1024, decode_content=False)

    def read_into(self, buffer: memoryview) -> int:
        # urllib3's own readinto reads into bytes first and copies
        with _in_httpx_words(self._request):
            return self._raw.readinto(buffer)

    def close(self) -> None:
        if not self._raw.isclosed():  # bytes are left on the wire: nobody may reuse it
            self._answer.close()
        self._answer.release_conn()


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
    return urllib3.make_headers(proxy_basic_auth=auth) if auth else None


@contextmanager
def _in_httpx_words(request: httpx.Request) -> Iterator[None]:
    """Translate what urllib3 and sockets raise."""
    try:
        yield
    except (HTTPError, http.client.HTTPException, OSError) as error:
        where = f"{request.url.host}:{request.url.port or request.url.scheme}"
        raise _kind_of(error)(f"{_words_of(error)} ({where})", request=request) from error


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
