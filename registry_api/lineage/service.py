"""Decide what of a lineage is shown."""

from ai_model_format.wire import Direction, LineageInfo
from registry_api.access import Caller
from registry_api.db.session import Driver
from registry_api.get.service import find_manifest
from registry_api.lineage import queries


def show(
    driver: Driver,
    caller: Caller,
    model_id: str,
    ref: str,
    *,
    direction: Direction,
    depth: int,
    max_nodes: int,
) -> LineageInfo:
    """Return a version's ancestors, descendants or both, with the edges between them.

    Raises:
        ModelNotFound: there is no such model.
        VersionNotFound: it has no such version.
    """
    version = find_manifest(driver, model_id, ref).name
    found = queries.walk(
        driver, caller, model_id, version, direction=direction, depth=depth, max_nodes=max_nodes
    )
    near = sorted(found.nodes, key=lambda node: (abs(node["depth"]), -node["id"]))[:max_nodes]
    shown = {node["id"]: node for node in near if abs(node["depth"]) <= depth}
    return LineageInfo.model_validate(
        {
            "model_id": model_id,
            "version": version,
            "direction": direction,
            "nodes": [node for node in found.nodes if node["id"] in shown],
            "edges": [
                {"parent": shown[parent], "child": shown[child]}
                for parent, child in found.edges
                if parent in shown and child in shown
            ],
            "cut": len(shown) < len(found.nodes) or not found.whole,
        }
    )
