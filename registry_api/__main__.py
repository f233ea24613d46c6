"""The service's processes, for a team: ``python -m registry_api api|worker|migrate|...``.

Everything else is set by environment variables, see ``settings.py``.
"""

import argparse
import asyncio
import json
import logging
import signal
import sys
from collections.abc import Sequence

import uvicorn

from ai_model_format.wire import Role, TokenRequest
from registry_api import heap
from registry_api.access import Caller
from registry_api.app import create_app
from registry_api.catalog import tokens
from registry_api.db.migrate import upgrade
from registry_api.db.session import transaction
from registry_api.errors import RegistryError
from registry_api.jobs import work
from registry_api.parts import Parts, open_parts
from registry_api.settings import Settings

OPERATOR = Caller(None, "operator", "admin", ("*",))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the service's processes."""
    given = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    match given.process:
        case "api":
            serve_api(Settings(), host=given.host, port=given.port, migrate=given.migrate)
        case "worker":
            run_worker(Settings())
        case "migrate":
            upgrade(Settings().database_url)
        case "create-token":
            return create_token(Settings(), given.name, given.role, given.models)
        case "openapi":
            print(openapi_text())  # noqa: T201
    return 0


def serve_api(settings: Settings, *, host: str, port: int, migrate: bool) -> None:
    """Serve the API until SIGINT or SIGTERM."""
    if migrate:
        upgrade(settings.database_url)
    app = create_app(settings)
    heap.settle()
    uvicorn.run(
        app,
        host=host,
        port=port,
        ws="none",
        access_log=False,
        proxy_headers=False,  # X-Forwarded-For: trusted as settings say, not whoever is local
    )


def run_worker(settings: Settings) -> None:
    """Do jobs until SIGINT or SIGTERM; what is under way is left for the next worker."""
    parts = open_parts(settings)
    try:
        asyncio.run(_work_until_signal(parts))
    except asyncio.CancelledError:
        pass
    finally:
        parts.close()


def create_token(settings: Settings, name: str, role: Role, models: list[str]) -> int:
    """Make a token and print it."""
    parts = open_parts(settings)
    try:
        with transaction(parts.engine) as session:
            made = tokens.create(
                session, OPERATOR, TokenRequest(name=name, role=role, models=models or ["*"])
            )
    except (RegistryError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 1
    finally:
        parts.close()
    print(made.token)  # noqa: T201
    return 0


def openapi_text() -> str:
    """Return the interface as the reviewed snapshot ``openapi.json`` has it."""
    schema = create_app(Settings()).openapi()
    schema["info"]["version"] = "snapshot"  # else every release would change it
    return json.dumps(schema, indent=1, sort_keys=True, ensure_ascii=False)


async def _work_until_signal(parts: Parts) -> None:
    task = asyncio.ensure_future(work(parts))
    loop = asyncio.get_running_loop()

    def stop() -> None:
        parts.stopping.set()
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    await task


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m registry_api", description=__doc__)
    processes = parser.add_subparsers(dest="process", required=True)
    api = processes.add_parser("api", help="serve the API")
    api.add_argument("--host", default="127.0.0.1")
    api.add_argument("--port", type=int, default=8080)
    api.add_argument("--migrate", action="store_true", help="migrate the database first")
    processes.add_parser("worker", help="verify large pushes, drop expired ones")
    processes.add_parser("migrate", help="bring the database to the newest schema")
    token = processes.add_parser("create-token", help="make a token and print it")
    token.add_argument("--name", default="operator")
    token.add_argument("--role", choices=["reader", "writer", "admin"], default="admin")
    token.add_argument("--models", action="append", default=[], metavar="GLOB")
    processes.add_parser("openapi", help="print the interface as OpenAPI")
    return parser


if __name__ == "__main__":
    sys.exit(main())
