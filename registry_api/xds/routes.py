"""Routes in Envoy's words.

Order decides: a version pinned in the path, one pinned in a header, 404 for
any other pin, then the split. A pinned request goes to servers that have that
version or nowhere; it never falls back. Pure.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ai_model_format.gateway import (
    METADATA_NAMESPACE,
    MODEL_HEADER,
    VERSION_HEADER,
    model_path,
)
from ai_model_format.traffic import WHOLE
from registry_api.xds.clusters import share_cluster, version_cluster
from registry_api.xds.state import ModelRouting, RoutingState

Json = dict[str, Any]

ROUTE_CONFIG = "ai-model"
ROUTES_TYPE = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
_PREVIOUS_HOSTS = (
    "type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"
)
_PREVIOUS_PRIORITIES = (
    "type.googleapis.com/envoy.extensions.retry.priority.previous_priorities.v3"
    ".PreviousPrioritiesConfig"
)
_NAMED_VERSIONS = 20
"""Versions that a 404 lists: Envoy keeps the body of an answer to 4,096 bytes."""

_RETRY: Json = {
    # Nothing that a server may have begun to work on is sent again.
    "retry_on": "connect-failure,refused-stream,reset-before-request",
    "num_retries": 5,
    "retry_host_predicate": [
        {
            "name": "envoy.retry_host_predicates.previous_hosts",
            "typed_config": {"@type": _PREVIOUS_HOSTS},
        }
    ],
    "host_selection_retry_max_attempts": 5,
    "retry_back_off": {"base_interval": "0.005s", "max_interval": "0.2s"},
}
# In a chain two attempts at the canary, then the stable version.
_RETRY_IN_CHAIN: Json = {
    **_RETRY,
    "retry_priority": {
        "name": "envoy.retry_priorities.previous_priorities",
        "typed_config": {"@type": _PREVIOUS_PRIORITIES, "update_frequency": 2},
    },
}


def route_config(state: RoutingState, *, user_header: str) -> Json:
    """Return the one route table of a gateway.

    Args:
        state: of all models.
        user_header: lower-case name of the header that keeps a user on one version.
    """
    # The longest id first: /m/team/resnet50 is not a path of a model "team".
    models = sorted(state.models, key=lambda model: (-len(model.model_id), model.model_id))
    by_path = [route for model in models for route in _path_routes(model, user_header)]
    by_header = [route for model in models for route in _header_routes(model, user_header)]
    nothing = _not_found("no such model at this gateway", code="model_not_found")
    return {
        "@type": ROUTES_TYPE,
        "name": ROUTE_CONFIG,
        # A route may come a moment before its cluster does.
        "validate_clusters": False,
        "virtual_hosts": [
            {
                "name": "models",
                "domains": ["*"],
                "routes": [*by_path, *by_header, {"match": {"prefix": "/"}, **nothing}],
            }
        ],
        "response_headers_to_add": [
            _header(VERSION_HEADER, f"%UPSTREAM_METADATA({METADATA_NAMESPACE}:version)%")
        ],
    }


def _path_routes(model: ModelRouting, user_header: str) -> list[Json]:
    """Routes of ``/m/{model}`` and ``/m/{model}@{version}``; upstream sees the rest."""
    path = model_path(model.model_id)
    whole = {"path_separated_prefix": path}
    rewrite = _strip(path)
    pinned_paths = [
        _pinned(model, version, {"path_separated_prefix": f"{path}@{version}"}, strip=True)
        for version in sorted(model.loaded)
    ]
    pinned_headers = [
        _pinned(model, version, _with_headers(whole, {VERSION_HEADER: version}), strip=True)
        for version in sorted(model.loaded)
    ]
    return [
        *pinned_paths,
        *pinned_headers,
        {"match": {"prefix": f"{path}@"}, **_unknown_pin(model)},
        {"match": _with_headers(whole, {VERSION_HEADER: None}), **_unknown_pin(model)},
        _weighted(model, whole, user_header=user_header, rewrite=rewrite),
    ]


def _header_routes(model: ModelRouting, user_header: str) -> list[Json]:
    """Routes of requests that name the model in a header; the path stays as it is."""
    named = {MODEL_HEADER: model.model_id}
    anywhere = {"prefix": "/"}
    pinned = [
        _pinned(model, version, _with_headers(anywhere, {**named, VERSION_HEADER: version}))
        for version in sorted(model.loaded)
    ]
    return [
        *pinned,
        {
            "match": _with_headers(anywhere, {**named, VERSION_HEADER: None}),
            **_unknown_pin(model),
        },
        _weighted(model, _with_headers(anywhere, named), user_header=user_header, rewrite={}),
    ]


def _pinned(model: ModelRouting, version: str, match: Json, *, strip: bool = False) -> Json:
    pinned_path = match.get("path_separated_prefix", "")
    action = {
        "cluster": version_cluster(model.model_id, version),
        "timeout": "0s",
        "retry_policy": _RETRY,
        **(_strip(pinned_path) if strip else {}),
    }
    return {
        "match": match,
        "route": action,
        "request_headers_to_add": _upstream_headers(model.model_id),
    }


def _weighted(model: ModelRouting, match: Json, *, user_header: str, rewrite: Json) -> Json:
    stable = model.stable
    if stable is None:
        detail = f"model {model.model_id} has no route: its versions get no traffic yet"
        return {"match": match, **_not_found(detail, code="route_not_found")}
    action = {
        "weighted_clusters": {
            "clusters": [
                _share(model, run.version, run.width, stable=stable) for run in model.cohorts
            ],
            "use_hash_policy": True,
        },
        "hash_policy": [_salted_hash(model.model_id, user_header)],
        "timeout": "0s",
        "retry_policy": _RETRY_IN_CHAIN,
        **rewrite,
        **_shadow(model),
    }
    headers = _upstream_headers(model.model_id)
    return {"match": match, "route": action, "request_headers_to_add": headers}


def _share(model: ModelRouting, version: str, width: int, *, stable: str) -> Json:
    # A version that nobody has loaded now is not waited for.
    served = version if version in model.loaded else stable
    return {
        "name": share_cluster(model.model_id, served, stable),
        "weight": width,
    }


def _shadow(model: ModelRouting) -> Json:
    shadow = model.shadow
    if shadow is None or shadow.version not in model.loaded:
        return {}
    fraction = {"numerator": shadow.basis_points, "denominator": "TEN_THOUSAND"}
    policy = {
        "cluster": version_cluster(model.model_id, shadow.version),
        "runtime_fraction": {"default_value": fraction},
    }
    return {"request_mirror_policies": [policy]}


def _salted_hash(model_id: str, user_header: str) -> Json:
    """Hash a user's name with the model's, so that models do not pick the same users."""
    return {
        "header": {
            "header_name": user_header,
            "regex_rewrite": {
                "pattern": {"regex": "^(.*)$"},
                "substitution": f"{model_id}/\\1",
            },
        }
    }


def _with_headers(match: Json, headers: Mapping[str, str | None]) -> Json:
    """Add conditions on headers to a match; None means that the header is there at all."""
    conditions = [
        {"name": name, "present_match": True}
        if value is None
        else {"name": name, "string_match": {"exact": value}}
        for name, value in headers.items()
    ]
    return {**match, "headers": conditions}


def _strip(path: str) -> Json:
    """Take a model's path off, so that the server sees the path of its own API."""
    return {
        "regex_rewrite": {
            "pattern": {"regex": f"^{re.escape(path)}/*"},
            "substitution": "/",
        }
    }


def _upstream_headers(model_id: str) -> list[Json]:
    """Tell a server which model is meant; of the version its cluster tells it."""
    return [_header(MODEL_HEADER, model_id)]


def _header(name: str, value: str) -> Json:
    return {
        "header": {"key": name, "value": value},
        "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
    }


def _unknown_pin(model: ModelRouting) -> Json:
    detail = (
        f"no live server of {model.model_id} has the version asked for; "
        f"loaded now: {_listed(sorted(model.loaded)) or 'none'}"
    )
    return _not_found(detail, code="version_not_served")


def _listed(versions: Iterable[str]) -> str:
    names = list(versions)
    rest = f" and {len(names) - _NAMED_VERSIONS} more" if len(names) > _NAMED_VERSIONS else ""
    return ", ".join(names[:_NAMED_VERSIONS]) + rest


def _not_found(detail: str, *, code: str) -> Json:
    problem = {"title": "Not Found", "status": 404, "code": code, "detail": detail}
    return {
        "direct_response": {"status": 404, "body": {"inline_string": json.dumps(problem)}},
        "response_headers_to_add": [_header("content-type", "application/problem+json")],
    }


assert WHOLE == 10_000, "shadow fractions are written in ten-thousandths"
