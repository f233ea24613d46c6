"""SQL over parents and children."""

from typing import Any, LiteralString

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
    ),
    shown AS (
        SELECT version.id, depth, model.name AS model_id, version.name AS version,
            manifest_digest, version.created_at, created_by, yanked_at, git_commit,
            json_dataset(dataset_id, dataset_version) AS dataset
        FROM (
            SELECT id, depth FROM nearest WHERE abs(depth) <= %(depth)s
            ORDER BY abs(depth), id DESC LIMIT %(nodes)s
        ) AS near
        JOIN version USING (id) JOIN model ON model.id = version.model_id
    )
    SELECT json_build_object(
        'model_id', %(model)s::text, 'version', %(version)s::text,
        'direction', %(direction)s::text,
        'nodes', (
            SELECT json_agg(json_build_object('model_id', model_id, 'version', version,
                'manifest_digest', 'sha256:' || encode(manifest_digest, 'hex'),
                'created_at', json_time(created_at), 'created_by', created_by,
                'yanked_at', json_time(yanked_at), 'dataset', dataset,
                'git_commit', git_commit, 'depth', depth) ORDER BY depth, id)
            FROM shown
        ),
        'edges', (
            SELECT coalesce(json_agg(json_build_object(
                'parent', json_build_object('model_id', old.model_id, 'version', old.version),
                'child', json_build_object('model_id', new.model_id, 'version', new.version)
                ) ORDER BY old.id, new.id), '[]')
            FROM shown AS new JOIN version_parent ON version_id = new.id
            JOIN shown AS old ON old.id = parent_id
        ),
        'cut', (SELECT count(*) FROM shown) < (SELECT count(*) FROM nearest)
            OR (SELECT count(*) FROM step_by_step) = %(work)s
    )::text
"""  # noqa: S608 - all of it stands here
"""One walk each way: ``depth`` is signed by it, and the nearest way to a version counts.

Goes one generation further than asked, and takes one node more, so as to know whether that is
all. The children of one version are taken newest first, and no more than are shown; ``work``
bounds the walk where many ways lead to the same versions.
"""
_WAYS_TO_A_NODE = 8
_STEPS = {"up": [-1], "down": [1], "both": [-1, 1]}


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
) -> str:
    """Return the JSON of a ``LineageInfo`` of a version that is there.

    Versions that the caller may not read are not in it, nor what lies behind them.
    """
    values: dict[str, Any] = {
        "model": model_id,
        "version": version,
        "direction": direction,
        "steps": _STEPS[direction],
        "sees_all": caller.sees_all,
        "patterns": caller.patterns,
        "depth": depth,
        "nodes": max_nodes,
        "work": _WAYS_TO_A_NODE * (max_nodes + 1),
    }
    row = driver.execute(_WALK, values, prepare=False).fetchone()
    assert row is not None
    return str(row[0])
