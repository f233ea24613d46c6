"""Our own registry: the API over a real Postgres, its bytes in the S3 that all peers share."""

import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from benchmarks.core.processes import Command, Server, free_ports, listening
from benchmarks.core.s3 import REGION, Store

PROGRAM = str(Path(sys.executable).with_name("ai-model"))


def start(
    folder: Path, store: Store, *, public_url: str = "", settings: Mapping[str, str] | None = None
) -> tuple[Server, dict[str, str]]:
    """Start a registry and return the settings of its clients.

    ``public_url`` is where clients reach the store, if not where the registry does; ``settings``
    are more of the registry's own.

    Raises:
        CommandFailed: it did not start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (port,) = free_ports(1)
    env = {
        "AI_MODEL_STORE": "s3",
        "AI_MODEL_S3_BUCKET": store.bucket,
        "AI_MODEL_S3_ENDPOINT_URL": store.endpoint,
        "AI_MODEL_S3_PUBLIC_ENDPOINT_URL": public_url or store.endpoint,
        "AI_MODEL_S3_REGION": REGION,
        "AI_MODEL_S3_ACCESS_KEY_ID": store.access_key,
        "AI_MODEL_S3_SECRET_ACCESS_KEY": store.secret_key,
        "AI_MODEL_S3_PREFIX": "registry/",
        "AI_MODEL_URL_EXPIRES_S": "43200",
        **store.env,
        **(settings or {}),
    }
    argv = (PROGRAM, "serve", "--data-dir", str(folder), "--port", str(port))
    server = Server(Command(argv, env, folder), folder, folder / "serve.log")
    told = folder / "client.toml"
    server.wait_until(lambda: told.exists() and listening(port), timeout_s=120)
    said = tomllib.loads(told.read_text())
    return server, {"AI_MODEL_ENDPOINT": said["endpoint"], "AI_MODEL_TOKEN": said["token"]}
