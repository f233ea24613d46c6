"""Put the service together."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from ai_model_format.wire import Problem
from registry_api import __version__, health, middleware, problems
from registry_api.catalog import api as catalog
from registry_api.db.questions import LoopReader
from registry_api.events import api as events
from registry_api.find import api as find
from registry_api.get import api as get
from registry_api.lineage import api as lineage
from registry_api.parts import Parts, open_parts
from registry_api.push import api as push
from registry_api.rollout import api as rollout
from registry_api.routing import api as routing
from registry_api.settings import Settings
from registry_api.xds import api as xds

ROUTERS = (
    health.router,
    catalog.quick,
    get.quick,
    catalog.router,
    find.router,
    lineage.router,
    push.router,
    get.router,
    events.router,
    routing.router,
    rollout.router,
    xds.router,
)


def create_app(settings: Settings, parts: Parts | None = None) -> FastAPI:
    """Return the API.

    Args:
        settings: of the service.
        parts: opened by the caller, who closes them too; else the API opens its own when
            it starts.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.parts = parts or open_parts(settings)
        # Together as many as the pool has connections, its overflow included.
        app.state.turns = asyncio.Semaphore(settings.database_pool_size)
        app.state.authentications = asyncio.Semaphore(settings.database_pool_size)
        app.state.loop_reader = LoopReader(
            settings.database_url, connections=settings.database_pool_size
        )
        try:
            with ThreadPoolExecutor(settings.database_pool_size, "read") as app.state.readers:
                yield
        finally:
            await app.state.loop_reader.close()
        if parts is None:
            app.state.parts.close()

    app = FastAPI(
        title="ai-model",
        version=__version__,
        description="A model registry that ships the layers you need.",
        lifespan=lifespan,
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=_operation_id,
        redirect_slashes=False,
    )
    for router in ROUTERS:
        app.include_router(router)
    problems.install(app)
    app.add_middleware(middleware.BoundedBody, max_body_bytes=settings.max_body_bytes)
    app.add_middleware(middleware.RequestId)
    _describe_problems(app)
    _build_routes(app)
    return app


def _build_routes(app: FastAPI) -> None:
    """Have the routes built now, by one thread, and not within the first request.

    FastAPI puts that off until a path is matched; building changes what routes share.
    """
    nowhere = {"type": "http", "method": "GET", "path": "/-", "root_path": "", "headers": []}
    for route in app.routes:
        route.matches(nowhere)


def _operation_id(route: APIRoute) -> str:
    return route.name


def _describe_problems(app: FastAPI) -> None:
    """Let OpenAPI tell of problems as they are sent."""
    make = app.openapi

    def openapi() -> dict[str, Any]:
        schema = make()
        schemas = schema["components"]["schemas"]
        if "Problem" not in schemas:
            made = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas.update(made.pop("$defs", {}))
            schemas["Problem"] = made
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        return schema

    app.openapi = openapi  # type: ignore[method-assign]
