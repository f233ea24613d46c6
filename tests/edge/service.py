"""A real registry for tests of the edge, in a thread, so that a test can reach into its store."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from ai_model import Registry
from ai_model_format.wire import TokenRequest
from registry_api.access import Caller
from registry_api.app import create_app
from registry_api.catalog import tokens
from registry_api.db.session import transaction
from registry_api.parts import Parts, open_parts
from registry_api.settings import EdgeSettings, Settings
from tests.services.nginx import RunningEdge, free_port
from tests.services.seaweedfs import S3Server

MODEL = "herd/model"


@dataclass(frozen=True, slots=True)
class RunningRegistry:
    """A registry that listens.

    Attributes:
        url: where.
        token: of an administrator.
        parts: its own.
    """

    url: str
    token: str
    parts: Parts

    def client(self, cache: Path, *, connections: int = 4) -> Registry:
        return Registry(self.url, self.token, cache_dir=cache, connections=connections)


@contextmanager
def running_registry(database_url: str, **options: Any) -> Iterator[RunningRegistry]:
    """Run a registry on a migrated database; ``port`` and ``Settings`` may be given."""
    port = options.pop("port", None) or free_port()
    url = f"http://127.0.0.1:{port}"
    settings = Settings(database_url=database_url, public_url=url, **options)
    parts = open_parts(settings)
    config = uvicorn.Config(
        create_app(settings, parts),
        host="127.0.0.1",
        port=port,
        log_level="warning",
        proxy_headers=False,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="registry")
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        with transaction(parts.engine) as session:
            caller = Caller(None, "tests", "admin", ("*",))
            token = tokens.create(session, caller, TokenRequest(name="tests", role="admin"))
        yield RunningRegistry(url, token.token, parts)
    finally:
        server.should_exit = True
        thread.join()
        parts.close()


def s3_options(server: S3Server, bucket: str, *, public: str | None = None) -> dict[str, Any]:
    """Return the settings of a registry that keeps its objects in S3."""
    return {
        "store": "s3",
        "s3_bucket": bucket,
        "s3_endpoint_url": server.endpoint_url,
        "s3_public_endpoint_url": public,
        "s3_access_key_id": server.access_key_id,
        "s3_secret_access_key": server.secret_access_key,
        "s3_addressing_style": "path",
    }


def edge_settings(edge: RunningEdge, networks: Sequence[str] = ()) -> EdgeSettings:
    """Return what a registry is told of an edge."""
    known = edge.edge
    return EdgeSettings.model_validate(
        {"name": known.name, "url": known.url, "secret": known.secret, "networks": list(networks)}
    )


def publish(registry: RunningRegistry, model: Path, folder: Path) -> None:
    """Push the model from a machine of its own: a client that pushed it need not fetch it."""
    with registry.client(folder / "cache-of-author") as client:
        client.push(model.parent, MODEL, "v1")
