"""The whole registry in one process, for one person: Postgres, local objects, API and worker.

Everything lies in one data directory::

    postgres/     the database
    objects/      the object store
    client.toml   endpoint and token, for AI_MODEL_CONFIG; only its owner may read it
    serve.lock    held while a server runs
"""

import fcntl
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import uvicorn

from ai_model_format.wire import TokenRequest
from registry_api import heap
from registry_api.access import Caller, find_caller
from registry_api.app import create_app
from registry_api.catalog import tokens
from registry_api.db.migrate import upgrade
from registry_api.db.session import transaction
from registry_api.errors import Unauthenticated
from registry_api.jobs import WorkerThread
from registry_api.local_postgres import PostgresNotStarted, local_postgres
from registry_api.parts import Parts, open_parts
from registry_api.settings import Settings

CONFIG_NAME = "client.toml"
SHUTDOWN_S = 5
_OPERATOR = Caller(None, "serve", "admin", ("*",))


class CannotServe(Exception):
    """The server does not start; the message is one sentence for a person."""


def serve(
    data_dir: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    json_output: bool = False,
    anonymous_read: bool = False,
    public_url: str | None = None,
) -> None:
    """Serve a registry until SIGINT or SIGTERM; prints one line once it is ready.

    Args:
        data_dir: where everything is kept; made when missing, with room for one server.
        host: address to listen on.
        port: port to listen on; 0 picks a free one.
        json_output: print a JSON object with ``endpoint`` and ``config`` instead of a sentence.
        anonymous_read: let anybody read without a token.
        public_url: where clients reach this server, when that is another address.

    Raises:
        CannotServe: the directory or the port is in use, or Postgres does not start.
    """
    data_dir = data_dir.expanduser().absolute()
    with _stop_on_signals() as stop, _data_dir_of_our_own(data_dir), _listening(host, port) as sock:
        endpoint = f"http://{_host_in_url(host)}:{sock.getsockname()[1]}"
        try:
            with local_postgres(data_dir / "postgres") as database_url:
                upgrade(database_url)
                settings = Settings(
                    database_url=database_url,
                    store="local",
                    local_path=data_dir / "objects",
                    anonymous_read=anonymous_read,
                    public_url=public_url,
                )
                _run(
                    settings,
                    sock,
                    stop,
                    lambda parts: _announce(
                        parts,
                        data_dir / CONFIG_NAME,
                        public_url or endpoint,
                        json_output=json_output,
                    ),
                )
        except PostgresNotStarted as error:
            raise CannotServe(str(error)) from error


def _run(
    settings: Settings, sock: socket.socket, stop: threading.Event, ready: Callable[[Parts], None]
) -> None:
    """Run API and worker until ``stop`` is set."""
    parts = open_parts(settings)
    app = create_app(settings, parts)
    heap.settle()
    config = uvicorn.Config(
        app,
        log_level="warning",
        ws="none",
        proxy_headers=False,  # X-Forwarded-For: trusted as settings say, not whoever is local
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
    server = uvicorn.Server(config)
    api = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, name="api")
    worker = WorkerThread(parts)
    api.start()
    worker.start()
    try:
        while not server.started and api.is_alive():
            stop.wait(0.01)
        if not stop.is_set():
            ready(parts)
        while api.is_alive() and not stop.wait(0.5):
            pass
    finally:
        parts.stopping.set()
        server.should_exit = True
        worker.stop()
        api.join()
        parts.close()


def _announce(parts: Parts, config: Path, endpoint: str, *, json_output: bool) -> None:
    _write_config(config, endpoint, _token(parts, config))
    if json_output:
        print(json.dumps({"endpoint": endpoint, "config": str(config)}), flush=True)  # noqa: T201
    else:
        print(  # noqa: T201
            f"ai-model serves {endpoint}; use it with AI_MODEL_CONFIG={config}", flush=True
        )


def _token(parts: Parts, config: Path) -> str:
    """Return the token of an earlier start, or make one."""
    with transaction(parts.engine) as session:
        kept = _kept_token(config)
        if kept:
            try:
                find_caller(session, kept)
            except Unauthenticated:
                pass  # revoked, or of another database
            else:
                return kept
        request = TokenRequest(name="serve", role="admin")
        return tokens.create(session, _OPERATOR, request).token


def _kept_token(config: Path) -> str | None:
    import tomllib

    try:
        token = tomllib.loads(config.read_text()).get("token")
    except (OSError, ValueError):
        return None
    return token if isinstance(token, str) else None


def _write_config(config: Path, endpoint: str, token: str) -> None:
    text = f"endpoint = {json.dumps(endpoint)}\ntoken = {json.dumps(token)}\n"
    temporary = config.with_suffix(".tmp")
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(config)


@contextmanager
def _data_dir_of_our_own(data_dir: Path) -> Iterator[None]:
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        lock = (data_dir / "serve.lock").open("w")
    except OSError as error:
        raise CannotServe(f"cannot use {data_dir}: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise CannotServe(f"another server is running on {data_dir}") from error
        yield


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        sock = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        # create_server() adds the address to the system's words in its own way
        reason = (error.strerror or str(error)).partition(" (while ")[0]
        raise CannotServe(f"cannot listen on {host}:{port}: {reason}") from error
    with sock:
        yield sock


def _host_in_url(host: str) -> str:
    if host in ("0.0.0.0", "::", ""):  # noqa: S104 - compared, not bound
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


@contextmanager
def _stop_on_signals() -> Iterator[threading.Event]:
    """Give an event that SIGINT and SIGTERM set, where signals can be had (the main thread)."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    before = {
        number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main(arguments: list[str] | None = None) -> int:
    """Serve from a command line of its own: ``python -m registry_api.embedded DIR [PORT]``."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        serve(Path(given[0]), port=int(given[1]) if len(given) > 1 else 8080, json_output=True)
    except CannotServe as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
