"""One question of a gateway, and its answer from a state. Pure."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal

from ai_model_format.gateway import parse_cluster_name
from registry_api.xds import clusters, routes
from registry_api.xds.state import ModelRouting, RoutingState

Kind = Literal["clusters", "endpoints", "routes"]
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Poll:
    """What a gateway asks.

    Attributes:
        kind: of resource.
        gateway_id: who asks.
        has_version: what it has; empty at first.
        names: of resources, where it asks for certain ones.
        registry_cluster: its name for the registry.
        user_header: name of the header that keeps a user on one version there.
    """

    kind: Kind
    gateway_id: str
    has_version: str
    names: tuple[str, ...]
    registry_cluster: str
    user_header: str

    @property
    def has_revision(self) -> int:
        """The revision it has, of clusters or routes; 0 for none."""
        return int(self.has_version) if self.has_version.isdigit() else 0


def answer(poll: Poll, state: RoutingState) -> Json:
    """Return what a gateway is to be told.

    Clusters and routes have the state's revision as their version. Endpoints have
    a digest of themselves, so that a change elsewhere is not sent to every cluster.
    """
    if poll.kind == "clusters":
        resources = [
            cluster
            for model in state.models
            for cluster in clusters.model_clusters(model, registry_cluster=poll.registry_cluster)
        ]
        return _answer(str(state.revision), clusters.CLUSTER_TYPE, resources)
    if poll.kind == "routes":
        table = routes.route_config(state, user_header=poll.user_header)
        return _answer(str(state.revision), routes.ROUTES_TYPE, [table])
    models = {model.model_id: model for model in state.models}
    resources = [_endpoints(name, models) for name in poll.names]
    return _answer(_digest(resources), clusters.ENDPOINTS_TYPE, resources)


def _endpoints(cluster: str, models: dict[str, ModelRouting]) -> Json:
    name = parse_cluster_name(cluster)
    if name is None:
        return {"@type": clusters.ENDPOINTS_TYPE, "cluster_name": cluster, "endpoints": []}
    model = models.get(name.model_id, ModelRouting(name.model_id))
    return clusters.endpoints(model, name.version)


def _answer(version: str, type_url: str, resources: list[Json]) -> Json:
    return {"version_info": version, "type_url": type_url, "resources": resources}


def _digest(resources: list[Json]) -> str:
    return hashlib.sha256(json.dumps(resources, sort_keys=True).encode()).hexdigest()[:16]
