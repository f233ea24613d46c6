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
from registry_api.db.tables import ModelRow, VersionRow
from registry_api.routing import clock, endpoints, routes
from tests.services.envoy import digest_for

MODEL = "team/resnet50"
CALLER = clock.SYSTEM


def add_model(engine: Engine, model_id: str) -> None:
    """Add a model with the versions v1 to v4."""
    with transaction(engine) as session:
        model = ModelRow(name=model_id)
        session.add(model)
        session.flush()
        for name in ("v1", "v2", "v3", "v4"):
            session.add(
                VersionRow(
                    model_id=model.id, name=name, size=1, stored_bytes=1, facts={},
                    manifest_digest=digest_for(model_id, name), created_by="test",
                )
            )  # fmt: skip


def beat(
    engine: Engine,
    address: str,
    *versions: str,
    model_id: str = MODEL,
    digest: str | None = None,
    **said,
) -> None:
    loaded = [LoadedVersion(version=v, digest=digest or digest_for(model_id, v)) for v in versions]
    with transaction(engine) as session:
        request = EndpointRequest(versions=loaded, **said)
        endpoints.beat(session, CALLER, model_id, address, request)


def change(
    engine: Engine, expected: int | None = None, *, model_id: str = MODEL, **options
) -> RouteInfo:
    shares = options.pop("shares")
    request = RouteRequest(
        shares=[ShareRequest(version=v, basis_points=n) for v, n in shares.items()], **options
    )
    with transaction(engine) as session:
        return routes.change(session, CALLER, model_id, request, expected=expected)
