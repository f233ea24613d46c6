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
_READABLE: LiteralString = """(%(sees_all)s OR EXISTS (
        SELECT FROM version JOIN model ON model.id = model_id
        WHERE version.id = next.id AND model.name LIKE ANY (%(patterns)s)
    ))"""
_WALK: LiteralString = f"""
    WITH RECURSIVE walk (id, depth, step) AS (
        SELECT version.id, 0, step
        FROM model JOIN version ON model_id = model.id, unnest(%(steps)s::int[]) AS step
        WHERE model.name = %(model)s AND version.name = %(version)s
        UNION
        SELECT found.id, walk.depth + walk.step, walk.step
        FROM walk CROSS JOIN LATERAL (
            (
                SELECT id FROM version_parent AS next (child, id)
                WHERE walk.step < 0 AND child = walk.id AND {_READABLE}
                ORDER BY id DESC LIMIT %(nodes)s + 1
            )
            UNION ALL
            (
                SELECT id FROM version_parent AS next (id, parent)
                WHERE walk.step > 0 AND parent = walk.id AND {_READABLE}
                ORDER BY id DESC LIMIT %(nodes)s + 1
            )
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
            SELECT json_agg(json_build_object(
                'id', version.id, 'model_id', model.name, 'version', version.name,
                'manifest_digest', 'sha256:' || encode(manifest_digest, 'hex'),
                'created_at', version.created_at, 'created_by', created_by,
                'yanked_at', yanked_at, 'git_commit', git_commit, 'depth', depth, 'dataset',
                CASE WHEN dataset_id IS NOT NULL THEN
                    json_build_object('id', dataset_id, 'version', dataset_version) END
                ) ORDER BY depth, version.id)
            FROM nearest JOIN version USING (id) JOIN model ON model.id = model_id
        ),
        (
            SELECT coalesce(json_agg(json_build_array(parent_id, version_id)
                ORDER BY parent_id, version_id), '[]')
            FROM nearest JOIN version_parent ON version_id = nearest.id
            WHERE parent_id IN (SELECT id FROM nearest)
        )
"""  # noqa: S608 - all of it stands here
"""One walk each way: ``depth`` is signed by it, and the nearest way to a version counts.

Goes one generation further than asked, and takes one node more, so as to know whether that is
all. The children of one version are taken newest first, and no more than are shown; ``work``
bounds the walk where many ways lead to the same versions.
"""
_WAYS_TO_A_NODE = 8
_STEPS = {"up": [-1], "down": [1], "both": [-1, 1]}


class Walk(NamedTuple):
    """Fields of ``LineageNode`` and ``id``, the farthest ancestor first; edges as pairs of ids.

    ``whole`` is false where the walk ended before it had seen all within reach.
    """

    nodes: list[dict[str, Any]]
    edges: list[list[int]]
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
    return Walk(nodes, edges, whole=seen < work)
