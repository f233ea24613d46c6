"""A model in Postgres and nothing around it: beats and changes as calls of the services."""

from sqlalchemy import Engine

from ai_model_format.wire import (
    EndpointRequest,
    LoadedVersion,
    RouteInfo,
    RouteRequest,
    ShareRequest,
)
from registry_api.db.session import transaction
from registry_api.routing import clock, endpoints, routes
from tests.services.envoy import digest_for

MODEL = "team/resnet50"
CALLER = clock.SYSTEM


def beat(engine: Engine, address: str, *versions: str, digest: str | None = None, **said) -> None:
    loaded = [LoadedVersion(version=v, digest=digest or digest_for(MODEL, v)) for v in versions]
    with transaction(engine) as session:
        request = EndpointRequest(versions=loaded, **said)
        endpoints.beat(session, CALLER, MODEL, address, request)


def change(engine: Engine, expected: int | None = None, **options) -> RouteInfo:
    shares = options.pop("shares")
    request = RouteRequest(
        shares=[ShareRequest(version=v, basis_points=n) for v, n in shares.items()], **options
    )
    with transaction(engine) as session:
        return routes.change(session, CALLER, MODEL, request, expected=expected)
