"""A route in the words of other gateways, to be applied by other hands. Pure.

What is written is the split at one moment: these gateways do not follow the
registry. The formats of Kubernetes are written as JSON, which is YAML too.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ai_model_format.gateway import MODEL_HEADER, VERSION_HEADER, model_path
from ai_model_format.traffic import format_share, format_split, stable_version
from ai_model_format.wire import EndpointInfo, RouteInfo

Json = dict[str, Any]
Servers = Mapping[str, Sequence[str]]
"""Addresses of the live servers of each version."""

NOWHERE = "127.0.0.1:9"
"""Stands for a version that nobody has loaded: nginx and HAProxy want a server."""


def export_route(
    route: RouteInfo, endpoints: Sequence[EndpointInfo], *, target: str, user_header: str
) -> str:
    """Return the route in the words of ``target``, one of ``TARGETS``.

    Raises:
        ValueError: that gateway has no words for it; the message says why.
    """
    if len({_dns(share.version) for share in route.shares}) < len(route.shares):
        raise ValueError("two versions would have the same name there")
    servers = {
        share.version: sorted(
            endpoint.address
            for endpoint in endpoints
            if endpoint.state == "live"
            and any(v.version == share.version and v.matches for v in endpoint.versions)
        )
        for share in route.shares
    }
    return TARGETS[target](route, servers, user_header)


def _nginx(route: RouteInfo, servers: Servers, user_header: str) -> str:
    """``http`` context: upstreams, a hash of user or request, a server."""
    key = _plain(route.model_id)
    user = f"http_{user_header.lower().replace('-', '_')}"
    stable = stable_version(_split(route))
    lines = [_title(route)]
    for version, addresses in servers.items():
        lines.append(f"upstream {key}_{_plain(version)} {{")
        lines += [f"    server {address};" for address in addresses] or [
            f"    server {NOWHERE} down;"
        ]
        lines.append("}")
    lines += [
        f"map ${user} ${key}_user {{",
        '    "" $request_id;',
        f"    default ${user};",
        "}",
        f'split_clients "{route.model_id}/${{{key}_user}}" ${key}_version {{',
    ]
    lines += [
        f"    {share / 100:.2f}% {version};"
        for version, share in _split(route).items()
        if version != stable
    ]
    lines += [f"    * {stable};", "}", f"map ${key}_version ${key}_servers {{"]
    lines += [f"    {version} {key}_{_plain(version)};" for version in servers]
    lines += [
        "}",
        "server {",
        "    listen 8090;",
        f"    location ~ ^{re.escape(model_path(route.model_id))}(/(?<rest>.*))?$ {{",
        f"        proxy_set_header {MODEL_HEADER} {route.model_id};",
        f"        proxy_set_header {VERSION_HEADER} ${key}_version;",
        f"        proxy_pass http://${key}_servers/$rest$is_args$args;",
        "    }",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _haproxy(route: RouteInfo, servers: Servers, user_header: str) -> str:
    """A frontend that draws a slot of 10,000, and a backend for each version."""
    key = _plain(route.model_id)
    path = model_path(route.model_id)
    stable = stable_version(_split(route))
    lines = [
        _title(route),
        f"frontend {key}",
        "    mode http",
        "    bind :8090",
        f"    acl model path_beg {path}/",
        f"    acl user req.hdr({user_header}) -m found",
        "    http-request deny deny_status 404 unless model",
        "    http-request set-var(txn.slot) rand(10000)",
        f"    http-request set-var(txn.slot) req.hdr({user_header}),wt6(1),mod(10000) if user",
        f"    http-request set-header {MODEL_HEADER} {route.model_id}",
        f"    http-request replace-path {re.escape(path)}(/.*) \\1",
    ]
    border = 0
    for version, share in _split(route).items():
        if version != stable:
            border += share
            lines.append(
                f"    use_backend {key}_{_plain(version)} if {{ var(txn.slot) -m int lt {border} }}"
            )
    lines.append(f"    default_backend {key}_{_plain(stable)}")
    for version, addresses in servers.items():
        lines += [f"backend {key}_{_plain(version)}", "    mode http", "    option redispatch"]
        lines.append(f"    http-request set-header {VERSION_HEADER} {version}")
        lines += [f"    server s{n} {address}" for n, address in enumerate(addresses)] or [
            f"    server none {NOWHERE} disabled"
        ]
    return "\n".join(lines) + "\n"


def _traefik(route: RouteInfo, servers: Servers, _user_header: str) -> str:
    """Dynamic configuration for the file or HTTP provider."""
    key = _plain(route.model_id)
    path = model_path(route.model_id)
    services: Json = {
        f"{key}-{_plain(version)}": {
            "loadBalancer": {"servers": [{"url": f"http://{a}"} for a in addresses or [NOWHERE]]}
        }
        for version, addresses in servers.items()
    }
    weights = [
        {"name": f"{key}-{_plain(version)}", "weight": share}
        for version, share in _split(route).items()
    ]
    services[key] = {"weighted": {"services": weights}}
    document = {
        "http": {
            "routers": {
                key: {
                    "rule": f"PathPrefix(`{path}/`)", "service": key, "middlewares": [key],
                }
            },
            "middlewares": {key: {"stripPrefix": {"prefixes": [path]}}},
            "services": services,
        }
    }  # fmt: skip
    return json.dumps(document, indent=2) + "\n"


def _gateway_api(route: RouteInfo, _servers: Servers, _user_header: str) -> str:
    """An ``HTTPRoute`` over one Service for each version."""
    rewrite = {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}
    rule = {
        "matches": [{"path": {"type": "PathPrefix", "value": model_path(route.model_id)}}],
        "filters": [{"type": "URLRewrite", "urlRewrite": {"path": rewrite}}],
        "backendRefs": [
            {"name": _dns(f"{route.model_id}-{version}"), "port": 80, "weight": share}
            for version, share in _split(route).items()
        ],
    }
    return _resource(
        "gateway.networking.k8s.io/v1",
        "HTTPRoute",
        route,
        {"parentRefs": [{"name": "models"}], "rules": [rule]},
    )


def _istio(route: RouteInfo, _servers: Servers, _user_header: str) -> str:
    """A ``VirtualService`` over subsets; its weights are whole percents."""
    host = _dns(route.model_id)
    shares = _split(route)
    if any(share % 100 for share in shares.values()):
        raise ValueError("Istio has whole percents only; round the route to these first")
    rule = {
        "match": [{"uri": {"prefix": f"{model_path(route.model_id)}/"}}],
        "rewrite": {"uri": "/"},
        "route": [
            {"destination": {"host": host, "subset": _dns(version)}, "weight": share // 100}
            for version, share in shares.items()
        ],
    }
    return _resource(
        "networking.istio.io/v1beta1", "VirtualService", route, {"hosts": ["*"], "http": [rule]}
    )


TARGETS: dict[str, Callable[[RouteInfo, Servers, str], str]] = {
    "nginx": _nginx,
    "haproxy": _haproxy,
    "traefik": _traefik,
    "gateway-api": _gateway_api,
    "istio": _istio,
}


def _resource(api_version: str, kind: str, route: RouteInfo, spec: Json) -> str:
    metadata = {
        "name": _dns(route.model_id),
        "annotations": {"ai-model/revision": str(route.revision)},
    }
    document = {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}
    return json.dumps(document, indent=2) + "\n"


def _split(route: RouteInfo) -> dict[str, int]:
    return {share.version: share.basis_points for share in route.shares}


def _title(route: RouteInfo) -> str:
    shadow = route.shadow
    copied = f", {format_share(shadow.basis_points)} copied to {shadow.version}" if shadow else ""
    split = format_split(_split(route))
    return f"# {route.model_id}, revision {route.revision}: {split}{copied}"


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "_", name)


def _dns(name: str) -> str:
    """Return a label of DNS (RFC 1123) made from a name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:63]
