"""Real registries for tests, each a process: embedded for one person, on S3 for a team.

Usable outside pytest: ``with running_embedded(directory) as registry: ...``.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ai_model import Registry
from storage.keys import object_key
from storage.s3 import S3ObjectStore, S3Settings
from tests.services.postgres import TEMPLATE, PostgresServer
from tests.services.seaweedfs import S3Server, fresh_bucket

_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class RegistryServer:
    """A running registry.

    Attributes:
        endpoint: base URL.
        token: of an admin.
        objects_dir: where a local store keeps its objects; ``None`` on S3.
        s3: settings of the store on S3; ``None`` on a local one.
        pid: of the process with API and worker.
    """

    endpoint: str
    token: str
    objects_dir: Path | None = None
    s3: S3Settings | None = None
    pid: int = 0

    def client(self, cache_dir: Path, *, endpoint: str | None = None) -> Registry:
        """Return a client with a cache of its own."""
        return Registry(endpoint or self.endpoint, self.token, cache_dir=cache_dir)

    def environment(self, cache_dir: Path) -> dict[str, str]:
        """Return the environment of a process that is to use this registry."""
        settings = {
            "AI_MODEL_ENDPOINT": self.endpoint,
            "AI_MODEL_TOKEN": self.token,
            "AI_MODEL_CACHE": str(cache_dir),
        }
        return {**os.environ, **settings, "PYTHONPATH": str(_ROOT)}

    def read_object(self, digest: str) -> bytes:
        """Return an object's bytes as they lie in the store."""
        if self.objects_dir is not None:
            return (self.objects_dir / object_key(digest)).read_bytes()
        store = self._s3()
        answer = store.client.get_object(Bucket=store.settings.bucket, Key=object_key(digest))
        return answer["Body"].read()

    def overwrite_object(self, digest: str, data: bytes) -> None:
        """Damage the store: replace an object's bytes behind the service's back."""
        if self.objects_dir is not None:
            path = self.objects_dir / object_key(digest)
            path.chmod(0o644)
            path.write_bytes(data)
            return
        store = self._s3()
        store.client.put_object(Bucket=store.settings.bucket, Key=object_key(digest), Body=data)

    def bytes_stored(self) -> int:
        """Return the size of all objects, manifests among them."""
        if self.objects_dir is not None:
            found = (self.objects_dir / "objects").rglob("*")
            return sum(path.stat().st_size for path in found if path.is_file())
        store = self._s3()
        pages = store.client.get_paginator("list_objects_v2").paginate(
            Bucket=store.settings.bucket, Prefix="objects/"
        )
        return sum(item["Size"] for page in pages for item in page.get("Contents", ()))

    def _s3(self) -> S3ObjectStore:
        assert self.s3 is not None
        return S3ObjectStore(self.s3)


@contextmanager
def running_embedded(directory: Path) -> Iterator[RegistryServer]:
    """Run ``registry_api.embedded`` on a data directory and stop it at the end."""
    command = [sys.executable, "-m", "registry_api.embedded", str(directory), "0"]
    with _running(command, {}) as said:
        import tomllib

        token = tomllib.loads(Path(said["config"]).read_text())["token"]
        yield RegistryServer(
            said["endpoint"], token, objects_dir=directory / "objects", pid=said["pid"]
        )


@contextmanager
def running_on_s3(database_url: str, s3: S3Settings, **settings: str) -> Iterator[RegistryServer]:
    """Run API and worker on a migrated database and a bucket, and stop them at the end."""
    environment = {
        "AI_MODEL_DATABASE_URL": database_url,
        "AI_MODEL_STORE": "s3",
        "AI_MODEL_S3_BUCKET": s3.bucket,
        "AI_MODEL_S3_ENDPOINT_URL": str(s3.endpoint_url),
        "AI_MODEL_S3_REGION": s3.region,
        "AI_MODEL_S3_ACCESS_KEY_ID": str(s3.access_key_id),
        "AI_MODEL_S3_SECRET_ACCESS_KEY": str(s3.secret_access_key),
        "AI_MODEL_S3_ADDRESSING_STYLE": "path",
    }
    command = [sys.executable, "-m", "tests.services.registry_process"]
    with _running(command, environment | settings) as said:
        yield RegistryServer(said["endpoint"], said["token"], s3=s3, pid=said["pid"])


@contextmanager
def running_locally(
    database_url: str, objects_dir: Path, **settings: str
) -> Iterator[RegistryServer]:
    """Run API and worker on a migrated database and a directory, and stop them at the end."""
    environment = {
        "AI_MODEL_DATABASE_URL": database_url,
        "AI_MODEL_STORE": "local",
        "AI_MODEL_LOCAL_PATH": str(objects_dir),
    }
    command = [sys.executable, "-m", "tests.services.registry_process"]
    with _running(command, environment | settings) as said:
        yield RegistryServer(said["endpoint"], said["token"], objects_dir=objects_dir)


@pytest.fixture(scope="session")
def registry_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    """One embedded registry a test process; tests use models of their own names."""
    # not below pytest's own directory: as root, Postgres runs as another user
    import tempfile

    with (
        tempfile.TemporaryDirectory(prefix="ai-model-registry-") as directory,
        running_embedded(Path(directory) / "data") as server,
    ):
        yield server


@pytest.fixture(scope="session")
def s3_registry_server(
    postgres_server: PostgresServer, s3_server: S3Server
) -> Iterator[RegistryServer]:
    """One registry on Postgres and S3 a test process."""
    url = postgres_server.create(template=TEMPLATE)
    with fresh_bucket(s3_server) as s3, running_on_s3(url, s3) as server:
        yield server
    postgres_server.drop(url)


@pytest.fixture(params=["local", "s3"])
def any_registry(request: pytest.FixtureRequest) -> RegistryServer:
    """Run a test on both kinds of store."""
    name = "registry_server" if request.param == "local" else "s3_registry_server"
    server: RegistryServer = request.getfixturevalue(name)
    return server


@pytest.fixture
def model_id(request: pytest.FixtureRequest) -> str:
    """A model id that no other test uses."""
    import hashlib

    return "t-" + hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:20]


@pytest.fixture
def new_client(tmp_path: Path) -> Iterator[Callable[..., Registry]]:
    """Make clients, each with an empty cache of its own like a machine of its own."""
    made: list[Registry] = []

    def make(server: RegistryServer, *, endpoint: str | None = None) -> Registry:
        client = server.client(tmp_path / f"cache-{len(made)}", endpoint=endpoint)
        made.append(client)
        return client

    yield make
    for client in made:
        client.close()


@contextmanager
def _running(command: list[str], settings: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Run a server that says one line of JSON when it is ready."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("AI_MODEL_")}
    process = subprocess.Popen(
        command,
        cwd=_ROOT,
        env=clean | settings,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{command} does not start; what it says is above")
        yield {**json.loads(line), "pid": process.pid}
    finally:
        process.terminate()
        process.communicate(timeout=60)
