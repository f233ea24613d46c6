"""One API process for tests of traffic: ``python -m tests.services.traffic_api PORT``."""

import sys

import uvicorn

from registry_api.app import create_app
from registry_api.settings import Settings

if __name__ == "__main__":
    app = create_app(Settings())
    port = int(sys.argv[1])
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", timeout_graceful_shutdown=2)
