"""A whole stack of traffic: Postgres, API processes, a real Envoy, inference servers.

Each part is a process of its own, so that it can be killed and come back.
"""

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from ai_model import Registry
from ai_model.api import Api
from ai_model.config import Config
from ai_model.errors import AiModelError
from ai_model.retry import RetryPolicy
from ai_model.routing.api import TrafficApi
from ai_model_format import wire
from ai_model_format.digest import digest_of
from registry_api.db.session import open_engine, transaction
from registry_api.db.tables import ModelRow, TokenRow, VersionRow
from tests.services.inference import InferenceServer
from tests.services.nginx import free_port
from tests.services.postgres import TEMPLATE, PostgresServer

CONVERGE_S = 60.0
TTL_S = 60
"""Long, so that a busy machine lets no lease lapse; tests of leases shorten it."""
BEAT_S = 0.5


@dataclass
class TrafficStack:
    """Handles to every part."""

    database: str
    folder: Path
    token: str
    api_ports: list[int]
    gateway_port: int = field(default_factory=free_port)
    apis: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    gateway_process: subprocess.Popen[bytes] | None = None
    servers: list[InferenceServer] = field(default_factory=list)
    beating: dict[str, tuple[threading.Event, threading.Thread]] = field(default_factory=dict)
    cleanup: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    @property
    def endpoints(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.api_ports]

    @property
    def gateway_url(self) -> str:
        return f"http://127.0.0.1:{self.gateway_port}"

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "AI_MODEL_DATABASE_URL": self.database,
            "AI_MODEL_LOCAL_PATH": str(self.folder / "objects"),
            "AI_MODEL_ENDPOINT": self.endpoints[0],
            "AI_MODEL_TOKEN": self.token,
            "AI_MODEL_CACHE": str(self.folder / "cache"),
        }

    def start_api(self, port: int) -> None:
        command = [sys.executable, "-m", "tests.services.traffic_api", str(port)]
        with (self.folder / f"api-{port}.log").open("ab") as log:
            self.apis[port] = subprocess.Popen(
                command, env=self.environment, stdout=log, stderr=subprocess.STDOUT
            )
        converge(lambda: is_up(f"http://127.0.0.1:{port}/v1/live"))

    def kill_api(self, port: int) -> None:
        self.apis[port].kill()
        self.apis[port].wait()

    def start_gateway(self) -> None:
        command = [
            sys.executable, "-m", "ai_model_cli.main", "gateway", "--port", str(self.gateway_port),
            "--gateway-id", "test-gateway",
        ]  # fmt: skip
        for endpoint in self.endpoints[1:]:
            command += ["--registry", endpoint]
        log = (self.folder / "gateway.log").open("ab")
        self.cleanup.callback(log.close)
        self.gateway_process = subprocess.Popen(
            command, env=self.environment, stdout=log, stderr=subprocess.STDOUT
        )
        converge(lambda: is_up(f"{self.gateway_url}/", good=(404,)))

    def traffic(self, *, port: int | None = None) -> TrafficApi:
        endpoint = f"http://127.0.0.1:{port or self.api_ports[0]}"
        config = Config(endpoint, self.token, self.folder / "cache")
        api = Api(config, policy=RetryPolicy())
        self.cleanup.callback(api.close)
        return TrafficApi(api)

    def registry(self) -> Registry:
        return Registry(self.endpoints[0], self.token, cache_dir=self.folder / "cache")

    def run(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Type an ``ai-model`` command."""
        done = subprocess.run(
            [sys.executable, "-m", "ai_model_cli.main", *arguments],
            env=self.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done

    def add_versions(self, model_id: str, *versions: str) -> None:
        """Make versions that are ready; their bytes do not matter to traffic."""
        engine = open_engine(self.database, pool_size=1)
        with transaction(engine) as session:
            model = ModelRow(name=model_id)
            session.add(model)
            session.flush()
            for version in versions:
                session.add(
                    VersionRow(
                        model_id=model.id, name=version, size=1, stored_bytes=1, facts={},
                        manifest_digest=digest_for(model_id, version), created_by="test",
                    )
                )  # fmt: skip
        engine.dispose()

    def begin_push(self, model_id: str, version: str) -> None:
        """Begin a push of one file, and leave it there."""
        file = {"path": "a", "size": 1, "sha256": "sha256:" + "0" * 64}
        answer = httpx.post(
            f"{self.endpoints[0]}/v1/models/{model_id}/pushes",
            json={"version": version, "files": [file]},
            headers={"Authorization": f"Bearer {self.token}"},
        )
        assert answer.status_code in (200, 201), answer.text

    def serve(
        self, model_id: str, *versions: str, fail_every: int = 0, delay_ms: int = 0
    ) -> InferenceServer:
        """Start an inference server and keep its lease alive."""
        server = InferenceServer(versions, fail_every=fail_every, delay_ms=delay_ms).start()
        self.servers.append(server)
        self.keep_beating(model_id, server)
        return server

    def keep_beating(self, model_id: str, server: InferenceServer) -> None:
        stopped = threading.Event()
        self.beat(model_id, server)

        def beat() -> None:
            while not stopped.wait(BEAT_S):
                with contextlib.suppress(AiModelError, httpx.HTTPError):
                    self.beat(model_id, server)

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        self.beating[server.address] = (stopped, thread)

    def beat(
        self,
        model_id: str,
        server: InferenceServer,
        *,
        draining: bool = False,
        ttl_s: int = TTL_S,
    ) -> None:
        """Beat once, at whichever API process answers."""
        loaded = [
            {"version": version, "digest": digest_for(model_id, version)}
            for version in server.versions
        ]
        body = {"versions": loaded, "ttl_s": ttl_s, "draining": draining}
        for endpoint in self.endpoints:
            with contextlib.suppress(httpx.TransportError):
                response = httpx.put(
                    f"{endpoint}/v1/models/{model_id}/endpoints/{server.address}",
                    json=body, headers={"authorization": f"Bearer {self.token}"}, timeout=5,
                )  # fmt: skip
                if response.status_code < 500:
                    response.raise_for_status()
                    return

    def stop_beating(self, server: InferenceServer) -> None:
        stopped, thread = self.beating.pop(server.address)
        stopped.set()
        thread.join()

    def crash(self, model_id: str, server: InferenceServer, *, ttl_s: int = 2) -> None:
        """Kill a server whose lease ends soon."""
        self.stop_beating(server)
        self.beat(model_id, server, ttl_s=ttl_s)
        server.kill()

    def drain(self, model_id: str, server: InferenceServer) -> None:
        self.stop_beating(server)
        self.beat(model_id, server, draining=True)

    def close(self) -> None:
        for stopped, _ in self.beating.values():
            stopped.set()
        if self.gateway_process is not None:
            self.gateway_process.send_signal(signal.SIGTERM)
            self.gateway_process.wait(30)
        for process in self.apis.values():
            process.terminate()
        for process in self.apis.values():
            process.wait(30)
        for server in self.servers:
            server.stop()
        self.cleanup.close()

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in self.folder.glob("*.log"))


def digest_for(model_id: str, version: str) -> str:
    return digest_of(hashlib.sha256(f"{model_id}@{version}".encode()).digest())


def converge(condition: Callable[[], object], *, timeout_s: float = CONVERGE_S) -> None:
    """Wait until something holds; a generous deadline, not a measure of speed."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "did not come about in time"
        time.sleep(0.02)


def is_up(url: str, *, good: tuple[int, ...] = (200,)) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(url, timeout=2).status_code in good
    return False


@pytest.fixture(scope="module")
def traffic_stack(
    postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TrafficStack]:
    """Two API processes and a gateway; each test adds models and servers of its own."""
    database = postgres_server.create(template=TEMPLATE)
    secret = f"aim_{os.urandom(32).hex()}"
    engine = open_engine(database, pool_size=1)
    with transaction(engine) as session:
        session.add(
            TokenRow(
                name="test", secret_hash=digest_of(secret.encode()), role="admin", models=["*"]
            )
        )
    engine.dispose()
    stack = TrafficStack(
        database, tmp_path_factory.mktemp("traffic"), secret, [free_port(), free_port()]
    )
    try:
        for port in stack.api_ports:
            stack.start_api(port)
        stack.start_gateway()
        yield stack
    finally:
        stack.close()
        print(stack.logs())
        postgres_server.drop(database)


def loaded(model_id: str, *versions: str) -> list[wire.LoadedVersion]:
    return [
        wire.LoadedVersion(version=version, digest=digest_for(model_id, version))
        for version in versions
    ]
