"""Our own registry, as a team runs it: Postgres, one API process, one worker, an S3."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.core.processes import Command, Server, free_ports, listening, run
from benchmarks.core.s3 import REGION, Store

ROOT = Path(__file__).parents[2]
POSTGRES = Path(__file__).with_name("postgres.py")


@dataclass(frozen=True, slots=True)
class Registry:
    """A running registry.

    Attributes:
        clients: the settings of its clients.
        database_url: of its Postgres.
        servers: its processes and Postgres.
    """

    clients: dict[str, str]
    database_url: str
    servers: tuple[Server, ...]

    def cpu_s(self) -> float:
        """Return what its processes and Postgres have used so far."""
        return sum(server.cpu_s() for server in self.servers)


def start(
    folder: Path,
    store: Store,
    serve: Callable[[Server], Server],
    *,
    public_url: str = "",
    settings: Mapping[str, str] | None = None,
) -> Registry:
    """Start a registry.

    Args:
        folder: where Postgres and the logs lie.
        store: where objects lie.
        serve: told of each server, to stop it at the end.
        public_url: where clients reach the store, if not where the registry does.
        settings: more of the registry's own.

    Raises:
        CommandFailed: it did not start.
    """
    postgres, url = _postgres(folder, serve)
    (port,) = free_ports(1)
    env = {
        "PYTHONPATH": str(ROOT),
        "AI_MODEL_DATABASE_URL": url,
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
    process = (sys.executable, "-m", "registry_api")
    api = Command((*process, "api", "--port", str(port), "--migrate"), env, folder)
    asked = serve(Server(api, folder, folder / "api.log"))
    asked.wait_until(lambda: listening(port))
    jobs = serve(Server(Command((*process, "worker"), env, folder), folder, folder / "worker.log"))
    made = Command((*process, "create-token", "--name", "bench", "--role", "admin"), env, folder)
    token = run([made], folder).output.split()[-1]
    endpoint = f"http://127.0.0.1:{port}"
    clients = {"AI_MODEL_ENDPOINT": endpoint, "AI_MODEL_TOKEN": token}
    return Registry(clients, url, (asked, jobs, postgres))


def _postgres(folder: Path, serve: Callable[[Server], Server]) -> tuple[Server, str]:
    told = folder / "database_url"
    argv = (sys.executable, str(POSTGRES), str(folder / "postgres"), str(told))
    command = Command(argv, {"PYTHONPATH": str(ROOT)})
    server = serve(Server(command, folder, folder / "postgres.log"))
    server.wait_until(told.exists)
    daemon = (folder / "postgres" / "postmaster.pid").read_text().splitlines()[0]
    server.children.append(int(daemon))
    return server, told.read_text()
