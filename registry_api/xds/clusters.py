"""Clusters and endpoints in Envoy's words.

Each version of a model is a cluster of the servers that have it loaded. A
canary's share goes to a chain of its own cluster and the stable version's, so
that an empty canary loses nothing. Pure.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from ai_model_format.gateway import METADATA_NAMESPACE, VERSION_HEADER, ClusterName, stat_name
from ai_model_format.traffic import Split
from registry_api.xds.state import ModelRouting

Json = dict[str, Any]

CLUSTER_TYPE = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
ENDPOINTS_TYPE = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
_AGGREGATE_TYPE = "type.googleapis.com/envoy.extensions.clusters.aggregate.v3.ClusterConfig"

# A version that answers 500 is to be seen and rolled back, not hidden: only a
# server that cannot be reached is passed over.
_OUTLIER_DETECTION: Json = {
    "enforcing_consecutive_5xx": 0,
    "enforcing_consecutive_gateway_failure": 0,
    "enforcing_success_rate": 0,
    "enforcing_local_origin_success_rate": 0,
    "split_external_local_origin_errors": True,
    "consecutive_local_origin_failure": 2,
    "enforcing_consecutive_local_origin_failure": 100,
    "max_ejection_percent": 100,
    "interval": "1s",
    "base_ejection_time": "2s",
    "max_ejection_time": "10s",
}
# Envoy's own limits (1,024 requests, 3 retries at a time) would drop requests
# exactly when a server dies under load.
_LIMITS: Json = {
    "thresholds": [
        {
            "max_connections": 100_000,
            "max_pending_requests": 100_000,
            "max_requests": 100_000,
            "max_retries": 100_000,
        }
    ]
}
_PROTOCOL = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_EXTENSIONS = "type.googleapis.com/envoy.extensions"
# A server with several versions loaded must be told which one is meant, and in a
# chain only the server that is reached in the end knows.
_PROTOCOL_OPTIONS: Json = {
    "@type": f"type.googleapis.com/{_PROTOCOL}",
    "explicit_http_config": {"http_protocol_options": {}},
    "http_filters": [
        {
            "name": "envoy.filters.http.header_mutation",
            "typed_config": {
                "@type": f"{_EXTENSIONS}.filters.http.header_mutation.v3.HeaderMutation",
                "mutations": {
                    "request_mutations": [
                        {
                            "append": {
                                "header": {
                                    "key": VERSION_HEADER,
                                    "value": f"%UPSTREAM_METADATA({METADATA_NAMESPACE}:version)%",
                                },
                                "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
                            }
                        }
                    ]
                },
            },
        },
        {
            "name": "envoy.filters.http.upstream_codec",
            "typed_config": {
                "@type": f"{_EXTENSIONS}.filters.http.upstream_codec.v3.UpstreamCodec"
            },
        },
    ],
}


def version_cluster(model_id: str, version: str) -> str:
    """Return the name of the cluster of the servers that have a version loaded."""
    return str(ClusterName(model_id, version))


def share_cluster(model_id: str, version: str, stable: str) -> str:
    """Return the name of the cluster that takes a version's share of a split."""
    return str(ClusterName(model_id, version, None if version == stable else stable))


def model_clusters(model: ModelRouting, *, registry_cluster: str) -> list[Json]:
    """Return all clusters of a model, in order of name.

    Args:
        model: whose.
        registry_cluster: the gateway's name for the registry, which it asks for endpoints.
    """
    versions = {*model.split, *model.loaded, *model.lingering}
    if model.shadow:
        versions.add(model.shadow.version)
    chains: set[tuple[str, str]] = set()
    for split in (model.split, *model.former_splits):
        versions.update(split)
        chains.update(_chains(split))
    rendered = [
        _version_cluster(version_cluster(model.model_id, version), registry_cluster)
        for version in versions
    ]
    rendered += [_chain_cluster(model.model_id, *chain) for chain in chains]
    return sorted(rendered, key=lambda cluster: str(cluster["name"]))


def endpoints(model: ModelRouting, version: str) -> Json:
    """Return the servers that have a version loaded, which may be none."""
    servers = sorted(server.address for server in model.servers if version in server.versions)
    return {
        "@type": ENDPOINTS_TYPE,
        "cluster_name": version_cluster(model.model_id, version),
        "endpoints": [{"lb_endpoints": [_endpoint(address, version) for address in servers]}],
    }


def _chains(split: Split) -> Iterator[tuple[str, str]]:
    """Yield every version with each larger one: the stable one is the largest with servers.

    Which that is changes at once when servers come and go, and clusters are there before.
    """
    largest_first = sorted(split, key=lambda version: (-split[version], version))
    yield from ((version, stable) for stable, version in combinations(largest_first, 2))


def _endpoint(address: str, version: str) -> Json:
    host, _, port = address.rpartition(":")
    socket = {"address": host.strip("[]"), "port_value": int(port)}
    return {
        "endpoint": {"address": {"socket_address": socket}},
        "metadata": {"filter_metadata": {METADATA_NAMESPACE: {"version": version}}},
    }


def _version_cluster(name: str, registry_cluster: str) -> Json:
    return {
        **_cluster(name),
        "type": "EDS",
        "eds_cluster_config": {
            "eds_config": _config_source(registry_cluster),
            "service_name": name,
        },
        "lb_policy": "LEAST_REQUEST",
        "common_lb_config": {"healthy_panic_threshold": {"value": 0}},
        "outlier_detection": _OUTLIER_DETECTION,
    }


def _chain_cluster(model_id: str, version: str, stable: str) -> Json:
    return {
        **_cluster(share_cluster(model_id, version, stable)),
        "lb_policy": "CLUSTER_PROVIDED",
        "cluster_type": {
            "name": "envoy.clusters.aggregate",
            "typed_config": {
                "@type": _AGGREGATE_TYPE,
                "clusters": [
                    version_cluster(model_id, version),
                    version_cluster(model_id, stable),
                ],
            },
        },
    }


def _config_source(registry_cluster: str) -> Json:
    return {
        "resource_api_version": "V3",
        "initial_fetch_timeout": "5s",
        "api_config_source": {
            "api_type": "REST",
            "transport_api_version": "V3",
            "cluster_names": [registry_cluster],
            "refresh_delay": "0.001s",
            "request_timeout": "30s",
        },
    }


def _cluster(name: str) -> Json:
    return {
        "@type": CLUSTER_TYPE,
        "name": name,
        "alt_stat_name": stat_name(name),
        "connect_timeout": "1s",
        "circuit_breakers": _LIMITS,
        "typed_extension_protocol_options": {_PROTOCOL: _PROTOCOL_OPTIONS},
    }
