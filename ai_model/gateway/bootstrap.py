"""What Envoy must know before it asks the registry for the rest. Pure."""

import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

Json = dict[str, Any]

_EXTENSIONS = "type.googleapis.com/envoy.extensions"
_HISTOGRAM_BUCKETS_MS = (
    1, 2, 5, 10, 15, 20, 30, 40, 50, 75, 100, 125, 150, 200, 250, 300, 350, 400, 500, 600, 750,
    1000, 1250, 1500, 2000, 2500, 3000, 4000, 5000, 7500, 10_000, 15_000, 30_000, 60_000,
    120_000, 300_000,
)  # fmt: skip
"""Finer than Envoy's own, so that a 99th percentile is within a fifth of the truth."""


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """How one gateway is set up.

    Attributes:
        gateway_id: its name, unique among the gateways of a registry.
        endpoints: base URLs of the registry's API processes, all ``http`` or all ``https``.
        token: for the registry; it must be allowed to read every model.
        host: address to listen on.
        port: port to listen on.
        user_header: lower-case name of the header that keeps a user on one version.
    """

    gateway_id: str
    endpoints: tuple[str, ...]
    token: str | None
    host: str
    port: int
    user_header: str


def bootstrap(options: GatewayOptions) -> Json:
    """Return Envoy's bootstrap configuration; it holds the token, so keep it private."""
    registry = urlsplit(options.endpoints[0]).netloc
    return {
        "node": {
            "id": options.gateway_id,
            "cluster": "ai-model",
            "metadata": {"user_header": options.user_header, "registry_cluster": registry},
        },
        # The admin page can stop Envoy and asks nobody who they are: never beyond this machine.
        "admin": {"address": _socket("127.0.0.1", 0)},
        "dynamic_resources": {"cds_config": _config_source(registry)},
        "static_resources": {
            "listeners": [_listener(options, registry)],
            "clusters": [_registry_cluster(options, registry)],
        },
        # Latencies are added up at each flush; rollouts are not to wait for them.
        "stats_flush_interval": "1s",
        "stats_config": {
            "histogram_bucket_settings": [
                {
                    "match": {"suffix": "upstream_rq_time"},
                    "buckets": [float(edge) for edge in _HISTOGRAM_BUCKETS_MS],
                }
            ]
        },
    }


def _config_source(registry: str) -> Json:
    return {
        "resource_api_version": "V3",
        # It listens only once it has been told: a gateway that knows no model would answer 404.
        "initial_fetch_timeout": "0s",
        "api_config_source": {
            "api_type": "REST",
            "transport_api_version": "V3",
            "cluster_names": [registry],
            "refresh_delay": "0.001s",
            "request_timeout": "30s",
        },
    }


def _listener(options: GatewayOptions, registry: str) -> Json:
    manager = {
        "@type": f"{_EXTENSIONS}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "models",
        "rds": {"route_config_name": "ai-model", "config_source": _config_source(registry)},
        "normalize_path": True,
        "merge_slashes": False,
        "path_with_escaped_slashes_action": "KEEP_UNCHANGED",
        "stream_idle_timeout": "300s",
        "drain_timeout": "30s",
        "http_filters": [
            _named("envoy.filters.http.router", f"{_EXTENSIONS}.filters.http.router.v3.Router")
        ],
    }
    chain = {
        "filters": [
            {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}
        ]
    }
    return {
        "name": "models",
        "address": _socket(options.host, options.port),
        "filter_chains": [chain],
    }


def _registry_cluster(options: GatewayOptions, registry: str) -> Json:
    """The registry, under its own host name: Envoy sends a cluster's name as ``Host``."""
    urls = [urlsplit(endpoint) for endpoint in options.endpoints]
    secure = urls[0].scheme == "https"
    addresses = [
        {"endpoint": {"address": _socket(url.hostname or "", url.port or (443 if secure else 80))}}
        for url in urls
    ]
    return {
        "name": registry,
        "alt_stat_name": "registry",
        "type": "STRICT_DNS",
        "connect_timeout": "2s",
        "load_assignment": {
            "cluster_name": registry,
            "endpoints": [{"lb_endpoints": addresses}],
        },
        "circuit_breakers": {
            "thresholds": [
                {
                    "max_connections": 100_000,
                    "max_pending_requests": 100_000,
                    "max_requests": 100_000,
                }
            ]
        },
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": _protocol(options.token)
        },
        **(_tls(urls[0].hostname or "") if secure else {}),
    }


def _protocol(token: str | None) -> Json:
    """HTTP/1.1, with the token on every request."""
    authorization = {
        "header": {"key": "authorization", "value": f"Bearer {token}"},
        "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
    }
    mutate = _named(
        "envoy.filters.http.header_mutation",
        f"{_EXTENSIONS}.filters.http.header_mutation.v3.HeaderMutation",
        mutations={"request_mutations": [{"append": authorization}]},
    )
    codec = _named(
        "envoy.filters.http.upstream_codec",
        f"{_EXTENSIONS}.filters.http.upstream_codec.v3.UpstreamCodec",
    )
    return {
        "@type": f"{_EXTENSIONS}.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http_protocol_options": {}},
        "http_filters": [mutate, codec] if token else [codec],
    }


def _tls(host: str) -> Json:
    authorities = ssl.get_default_verify_paths().cafile
    context = {
        "@type": f"{_EXTENSIONS}.transport_sockets.tls.v3.UpstreamTlsContext",
        "sni": host,
        "common_tls_context": {"validation_context": {"trusted_ca": {"filename": authorities}}},
    }
    return {"transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": context}}


def _named(name: str, type_url: str, **config: Any) -> Json:
    return {"name": name, "typed_config": {"@type": type_url, **config}}


def _socket(host: str, port: int) -> Json:
    return {"socket_address": {"address": host, "port_value": port}}
