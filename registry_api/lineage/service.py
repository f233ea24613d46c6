"""Decide what of a lineage is shown."""

from ai_model_format.wire import (
    Direction,
    LineageEdge,
    LineageInfo,
    LineageName,
    LineageNode,
)
from registry_api.access import Caller
from registry_api.catalog.summaries import dataset_of
from registry_api.db.session import Driver
from registry_api.get.service import find_manifest
from registry_api.lineage import queries
from registry_api.lineage.queries import Node


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
    near = sorted(found.nodes, key=lambda node: (abs(node.depth), -node.id))[:max_nodes]
    shown = {node.id: node for node in near if abs(node.depth) <= depth}
    return LineageInfo(
        model_id=model_id,
        version=version,
        direction=direction,
        nodes=[_node(node) for node in found.nodes if node.id in shown],
        edges=[
            LineageEdge(parent=_name(shown[parent]), child=_name(shown[child]))
            for parent, child in found.edges
            if parent in shown and child in shown
        ],
        cut=len(shown) < len(found.nodes) or not found.whole,
    )


def _name(node: Node) -> LineageName:
    return LineageName(model_id=node.model_id, version=node.version)


def _node(node: Node) -> LineageNode:
    dataset = dataset_of(node.dataset_id, node.dataset_version)
    return LineageNode.model_validate({**node._asdict(), "dataset": dataset})
