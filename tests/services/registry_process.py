"""A registry as a process of its own: API and worker over a given Postgres and store.

``python -m tests.services.registry_process`` reads the service's usual environment and
prints one JSON line with ``endpoint`` and ``token`` when it is ready. Ends with its stdin.
"""

import json
import os
import socket
import sys
import threading

import uvicorn

from ai_model_format.wire import TokenRequest
from registry_api.access import Caller
from registry_api.app import create_app
from registry_api.catalog import tokens
from registry_api.db.session import transaction
from registry_api.jobs import WorkerThread
from registry_api.parts import open_parts
from registry_api.settings import Settings


def main() -> None:
    settings = Settings()
    parts = open_parts(settings)
    with transaction(parts.engine) as session:
        request = TokenRequest(name="tests", role="admin")
        token = tokens.create(session, Caller(None, "tests", "admin", ("*",)), request).token
    sock = socket.create_server(("127.0.0.1", 0), backlog=2048)
    server = uvicorn.Server(uvicorn.Config(create_app(settings, parts), log_level="warning"))
    api = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    worker = WorkerThread(parts)
    api.start()
    worker.start()
    print(json.dumps({"endpoint": f"http://127.0.0.1:{sock.getsockname()[1]}", "token": token}))
    sys.stdout.flush()
    sys.stdin.read()  # until whoever started this closes it, or dies
    os._exit(0)


if __name__ == "__main__":
    main()
