"""SQL over parents and children."""

from typing import Any, LiteralString, NamedTuple

from sqlalchemy import text
from sqlalchemy.orm import Session

from registry_api.access import Caller
from registry_api.db.session import Driver

_KEEP = text("""
    INSERT INTO version_parent (version_id, parent_id)
    SELECT DISTINCT child.id, parent.id
    FROM version AS child
    CROSS JOIN jsonb_array_elements(child.metadata -> 'parents') AS named
    JOIN model ON model.name = named ->> 'model_id'
    JOIN version AS parent ON parent.model_id = model.id AND parent.name = named ->> 'version'
    WHERE child.id = :version_id
""")
_WALK: LiteralString = """
    WITH RECURSIVE walk (id, depth, step) AS (
        SELECT version.id, 0, step
        FROM model JOIN version ON model_id = model.id, unnest(%(steps)s::int[]) AS step
        WHERE model.name = %(model)s AND version.name = %(version)s
        UNION
        SELECT found.id, walk.depth + walk.step, walk.step
        FROM walk CROSS JOIN LATERAL (
            SELECT next.id FROM (
                SELECT parent_id AS id FROM version_parent
                WHERE walk.step < 0 AND version_id = walk.id
                UNION ALL
                SELECT version_id FROM version_parent
                WHERE walk.step > 0 AND parent_id = walk.id
            ) AS next
            JOIN version USING (id) JOIN model ON model.id = model_id
            WHERE %(sees_all)s OR model.name LIKE ANY (%(patterns)s)
            ORDER BY next.id DESC LIMIT %(nodes)s + 1
        ) AS found
        WHERE abs(walk.depth) <= %(depth)s
    ),
    step_by_step AS (SELECT id, depth FROM walk LIMIT %(work)s),
    nearest AS (
        SELECT id, min(abs(depth)) * sign(min(depth))::int AS depth
        FROM step_by_step GROUP BY id ORDER BY min(abs(depth)), id DESC LIMIT %(nodes)s + 1
    )
    SELECT
        (SELECT count(*) FROM step_by_step),
        (
            SELECT json_agg(json_build_array(model.name, version.name,
                'sha256:' || encode(manifest_digest, 'hex'), version.created_at, created_by,
                yanked_at, dataset_id, dataset_version, git_commit, depth, version.id)
                ORDER BY depth, version.id)
            FROM nearest JOIN version USING (id) JOIN model ON model.id = model_id
        ),
        (
            SELECT coalesce(json_agg(json_build_array(parent_id, version_id)
                ORDER BY parent_id, version_id), '[]')
            FROM nearest JOIN version_parent ON version_id = nearest.id
            WHERE parent_id IN (SELECT id FROM nearest)
        )
"""
"""One walk each way: ``depth`` is signed by it, and the nearest way to a version counts.

Goes one generation further than asked, and takes one node more, so as to know whether that is
all. The children of one version are taken newest first, and no more than are shown; ``work``
bounds the walk where many ways lead to the same versions.
"""
_WAYS_TO_A_NODE = 8
_STEPS = {"up": [-1], "down": [1], "both": [-1, 1]}


class Node(NamedTuple):
    """What a lineage shows of a version; times as JSON has them."""

    model_id: str
    version: str
    manifest_digest: str
    created_at: str
    created_by: str
    yanked_at: str | None
    dataset_id: str | None
    dataset_version: str | None
    git_commit: str | None
    depth: int
    id: int


class Walk(NamedTuple):
    """Nodes, the farthest ancestor first; edges as pairs of ids, the parent's first.

    ``whole`` is false where the walk ended before it had seen all within reach.
    """

    nodes: list[Node]
    edges: list[tuple[int, int]]
    whole: bool


def keep_parents(session: Session, version_pk: int) -> None:
    """Make rows of the parents that a new version's metadata names."""
    session.execute(_KEEP, {"version_id": version_pk})


def walk(
    driver: Driver,
    caller: Caller,
    model_id: str,
    version: str,
    *,
    direction: str,
    depth: int,
    max_nodes: int,
) -> Walk:
    """Return what lies within ``depth + 1`` generations of a version that is there.

    Versions that the caller may not read are not there, nor what lies behind them.
    """
    work = _WAYS_TO_A_NODE * (max_nodes + 1)
    values: dict[str, Any] = {
        "model": model_id,
        "version": version,
        "steps": _STEPS[direction],
        "sees_all": caller.sees_all,
        "patterns": caller.patterns,
        "depth": depth,
        "nodes": max_nodes,
        "work": work,
    }
    row = driver.execute(_WALK, values, prepare=False).fetchone()
    assert row is not None
    seen, nodes, edges = row
    return Walk([Node(*node) for node in nodes], [(old, new) for old, new in edges], seen < work)
