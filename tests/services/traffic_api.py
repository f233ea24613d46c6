"""One API process for tests of traffic: ``python -m tests.services.traffic_api PORT``."""

import sys

import uvicorn

from registry_api.app import ROUTERS, create_app
from registry_api.routing.api import router as traffic
from registry_api.settings import Settings
from registry_api.xds.api import router as xds

if __name__ == "__main__":
    app = create_app(Settings())
    for router in (traffic, xds):
        if router not in ROUTERS:
            app.include_router(router)
    port = int(sys.argv[1])
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", timeout_graceful_shutdown=2)
