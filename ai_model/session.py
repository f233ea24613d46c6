"""One conversation with a registry: HTTP requests, their retries, their errors.

The token goes to the endpoint and nowhere else: signed URLs are asked through
``store``, a client that has no token to give away, and redirects of the API are
refused. Must not know what the requests mean; that is ``api``.
"""

import gzip
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import httpx

from ai_model.bandwidth import Bandwidth
from ai_model.config import Config
from ai_model.errors import ServiceProblem, service_problem
from ai_model.lanes import MOST
from ai_model.release import VERSION
from ai_model.retry import RETRIED_STATUSES, Retrier, RetryPolicy, TryAgain, retry_after_s
from ai_model.transport import Transport

if TYPE_CHECKING:
    from pydantic import BaseModel

Answer = TypeVar("Answer", bound="BaseModel")
Read = TypeVar("Read")
Query = Mapping[str, str | int | list[str]]
GZIP_FROM = 64 * 1024


def _timeout(*, read_s: float) -> httpx.Timeout:
    return httpx.Timeout(connect=15.0, read=read_s, write=60.0, pool=60.0)


_TIMEOUT = _timeout(read_s=30.0)


class Session:
    """Connections to one registry and to where its bytes lie. Safe to use from threads.

    Attributes:
        policy: how patiently requests are repeated.
        on_note: told when one is to be.
    """

    def __init__(self, config: Config, *, policy: RetryPolicy) -> None:
        self.config = config
        self.policy = policy
        self.on_note: Callable[[str], None] | None = None
        self.bandwidth = Bandwidth(config.max_bandwidth)
        agent = {"user-agent": f"ai-model/{VERSION}"}
        token = {"authorization": f"Bearer {config.token}"} if config.token else {}
        transport = Transport(connections=(config.connections or MOST) + 2, ca_file=config.ca_file)
        self._service = httpx.Client(
            base_url=config.endpoint, headers=agent | token, transport=transport, timeout=_TIMEOUT
        )
        self.store = httpx.Client(
            headers=agent | {"accept-encoding": "identity"},
            transport=transport,
            timeout=_TIMEOUT,
            follow_redirects=True,
            max_redirects=3,
        )

    def close(self) -> None:
        """Close all connections."""
        self._service.close()
        self.store.close()

    def send(
        self,
        method: str,
        path: str,
        *,
        counter: "RequestCounter",
        body: "BaseModel | None" = None,
        params: Query | None = None,
        headers: Mapping[str, str] | None = None,
        read_timeout_s: float = 30.0,
        repeatable: bool = True,
    ) -> httpx.Response:
        """Send one request of the API and return its good answer.

        Args:
            method: of HTTP.
            path: below the endpoint, already quoted.
            counter: counts what is really sent.
            body: sent as JSON, compressed when large.
            params: of the query; empty texts are left out.
            headers: besides the usual ones.
            read_timeout_s: how long the service may be silent.
            repeatable: sending it twice does no harm, so it is tried again.

        Raises:
            ServiceProblem: the service refuses.
            NetworkError: it cannot be reached.
        """
        content, extra = _encode(body)
        request = self._service.build_request(
            method,
            path,
            content=content,
            params={key: value for key, value in (params or {}).items() if value != ""},
            headers={**extra, **(headers or {})},
            timeout=_timeout(read_s=read_timeout_s),
        )

        def attempt() -> httpx.Response:
            counter.add()
            return self._check(self._service.send(request), repeatable=repeatable)

        what = f"{method} {self.config.endpoint}{path}"
        if repeatable:
            retrier = Retrier(self.policy, note=self.on_note)
            return retrier.call(attempt, what=what, on_failure=lambda: False)
        once = Retrier(RetryPolicy(tries=1))
        return once.call(attempt, what=what, on_failure=lambda: False)

    def _check(self, response: httpx.Response, *, repeatable: bool) -> httpx.Response:
        if response.is_success or response.status_code == 304:
            return response
        problem = self._problem_of(response)
        if repeatable and response.status_code in RETRIED_STATUSES:
            raise TryAgain(
                f"the service answered {response.status_code}",
                retry_after_s=retry_after_s(response),
                final=problem,
            )
        raise problem

    def _problem_of(self, response: httpx.Response) -> ServiceProblem:
        try:
            body = response.json()
        except ValueError:
            body = None
        if not isinstance(body, Mapping) or "code" not in body:
            where = response.headers.get("location")
            hint = f" and points to {where}" if where else ""
            said = f"{response.request.url} answered {response.status_code}{hint}"
            body = {"detail": f"{said}, not as an ai-model registry does. Is the endpoint right?"}
        return service_problem(response.status_code, body)


class RequestCounter:
    """Counts requests of one operation. Safe to use from threads."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def add(self) -> None:
        """Count one more."""
        with self._lock:
            self.count += 1


def read_answer(kind: type[Answer], response: httpx.Response) -> Answer:
    """Return the body as ``kind``.

    Raises:
        ServiceProblem: it is something else, as from a newer service or another one.
    """
    return read_plain(kind.model_validate_json, response)


def read_plain(read: Callable[[bytes], Read], response: httpx.Response) -> Read:
    """Return what ``read`` makes of the body.

    Args:
        read: raises ``ValueError``, as pydantic does too, where it cannot.
        response: to be read.

    Raises:
        ServiceProblem: it cannot be read.
    """
    try:
        return read(response.content)
    except ValueError as error:
        detail = f"{response.request.url} answered what this client cannot read: {error}"
        raise service_problem(response.status_code, {"detail": detail}) from error


def _encode(body: "BaseModel | None") -> tuple[bytes | None, dict[str, str]]:
    if body is None:
        return None, {}
    content = body.model_dump_json(exclude_defaults=True).encode()
    headers: dict[str, Any] = {"content-type": "application/json"}
    if len(content) < GZIP_FROM:
        return content, headers
    return gzip.compress(content, 1, mtime=0), headers | {"content-encoding": "gzip"}
