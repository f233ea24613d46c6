"""Read the state that gateways are told from Postgres, at one revision."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from registry_api.routing import clock
from registry_api.xds.state import ModelRouting, RoutingState, Run, Server, Shadow

FORMER_ROUTES = 50
"""Revisions of a route that a gateway may be behind."""

_ENDPOINTS = text("""
    SELECT model.name AS model_id, endpoint.address, version.name AS version,
           endpoint.gone_at IS NULL AND NOT endpoint.draining AND loaded.until IS NULL
           AND loaded.digest = version.manifest_digest AS live
    FROM endpoint
    JOIN model ON model.id = endpoint.model_id
    JOIN loaded ON loaded.endpoint_id = endpoint.id
    JOIN version ON version.id = loaded.version_id
    WHERE coalesce(endpoint.gone_at, now()) > now() - make_interval(secs => :linger_s)
      AND coalesce(loaded.until, now()) > now() - make_interval(secs => :linger_s)
""")
_ROUTES = text("""
    SELECT model.name AS model_id, route.shares, route.cohorts, route.shadow,
           route.replaced_at IS NULL AS holds
    FROM model CROSS JOIN LATERAL (
        SELECT revision, shares, cohorts, shadow,
               lag(created_at) OVER (ORDER BY revision DESC) AS replaced_at
        FROM route_revision WHERE model_id = model.id
        ORDER BY revision DESC LIMIT :former
    ) AS route
    WHERE coalesce(route.replaced_at, now()) > now() - make_interval(secs => :linger_s)
""")


def load_state(engine: Engine) -> RoutingState:
    """Return all models' routing as of one moment."""
    snapshot = engine.execution_options(isolation_level="REPEATABLE READ")
    with Session(snapshot) as session, session.begin():
        revision = clock.current_revision(session)
        endpoints = session.execute(_ENDPOINTS, {"linger_s": clock.LINGER_S}).all()
        routes = session.execute(
            _ROUTES, {"linger_s": clock.LINGER_S, "former": FORMER_ROUTES}
        ).all()
    return RoutingState(revision, tuple(_models(endpoints, routes)))


def _models(endpoints: Sequence[Any], routes: Sequence[Any]) -> Iterable[ModelRouting]:
    endpoints_by_model = _by_model(endpoints)
    routes_by_model = _by_model(routes)
    for model_id in sorted({*endpoints_by_model, *routes_by_model}):
        yield _model(model_id, endpoints_by_model[model_id], routes_by_model[model_id])


def _model(model_id: str, endpoints: Sequence[Any], routes: Sequence[Any]) -> ModelRouting:
    current = next((row for row in routes if row.holds), None)
    former = [row for row in routes if not row.holds]
    lingering = {row.version for row in endpoints if not row.live}
    lingering |= {row.shadow["version"] for row in former if row.shadow}
    return ModelRouting(
        model_id,
        cohorts=tuple(Run(*run) for run in current.cohorts) if current else (),
        servers=tuple(_servers(endpoints)),
        shadow=_shadow(current.shadow) if current and current.shadow else None,
        lingering=frozenset(lingering),
        former_splits=tuple(
            {share["version"]: share["basis_points"] for share in row.shares} for row in former
        ),
    )


def _servers(endpoints: Sequence[Any]) -> Iterable[Server]:
    versions: dict[str, set[str]] = defaultdict(set)
    for row in endpoints:
        if row.live:
            versions[row.address].add(row.version)
    for address in sorted(versions):
        yield Server(address, frozenset(versions[address]))


def _shadow(shadow: dict[str, Any]) -> Shadow:
    return Shadow(shadow["version"], shadow["basis_points"])


def _by_model(rows: Sequence[Any]) -> dict[str, list[Any]]:
    grouped: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        grouped[row.model_id].append(row)
    return grouped
