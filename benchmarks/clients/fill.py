"""Fill a registry's database with versions, files, objects and chunks, as pushes would.

``fill.py DATABASE_URL FIRST LAST CHUNKS``: versions FIRST (from 1 on) up to LAST, CHUNKS rows in
all for them. Postgres makes the rows itself: faster than any client could send them.
"""

import json
import sys
import time

import psycopg

MODEL_OF = "CASE WHEN {v} %% 10 < 4 THEN {v} %% 10 + 1 ELSE 5 + {v} / 100 END"
"""Four large models have a tenth of all versions each, the others sixty each."""
PARENT = """CASE WHEN v %% 100 = 4 THEN 1 WHEN v %% 10 < 4 THEN v - 10
    ELSE v / 10 * 10 - 10 + v %% 4 END"""
"""Made from the one before in a large model, or from one of a large model; many from the first."""
MODEL, MODEL_OF_PARENT = MODEL_OF.format(v="v"), MODEL_OF.format(v="parent")
VERSIONS = f"""(
    SELECT v, {MODEL} AS m, CASE WHEN {PARENT} BETWEEN 1 AND v - 1 THEN {PARENT} END AS parent
    FROM generate_series(%(first)s, %(last)s) v
)"""

STATEMENTS = (
    f"""INSERT INTO model (id, name) OVERRIDING SYSTEM VALUE
    SELECT DISTINCT m, 'team-' || m %% 20 || '/model-' || m FROM {VERSIONS}
    ON CONFLICT DO NOTHING""",
    """INSERT INTO object (id, digest, size) OVERRIDING SYSTEM VALUE
    SELECT v, sha256(('object' || v)::bytea), 1600000
    FROM generate_series(%(first)s, %(last)s) v""",
    f"""INSERT INTO version (id, model_id, name, manifest_digest, size, stored_bytes, metadata,
        created_by) OVERRIDING SYSTEM VALUE
    SELECT v, m, 'v' || v, sha256(('manifest' || v)::bytea), 1600000, 1600000,
        jsonb_build_object(
            'parameters', jsonb_build_object('lr', v %% 7 * 0.001, 'epochs', v %% 50,
                'optimizer', jsonb_build_object('name', 'adam', 'seed', v)),
            'metrics', jsonb_build_object('accuracy', v %% 1000 / 1000.0),
            'dataset', jsonb_build_object('id', 'corpus-' || v %% 40, 'version', 'd' || v %% 9),
            'git_commit', encode(substr(sha256(('commit' || v / 5)::bytea), 1, 20), 'hex'),
            'tags', jsonb_build_object('stage', 'nightly', 'run', (v %% 500)::text),
            'parents', CASE WHEN parent IS NULL THEN '[]' ELSE jsonb_build_array(jsonb_build_object(
                'version', 'v' || parent,
                'model_id', 'team-' || {MODEL_OF_PARENT} %% 20 || '/model-' || {MODEL_OF_PARENT}
            )) END),
        'ci-' || v %% 5
    FROM {VERSIONS}""",
    f"""INSERT INTO version_parent (version_id, parent_id)
    SELECT v, parent FROM {VERSIONS} WHERE parent IS NOT NULL""",
    """INSERT INTO fact (term, version_id)
    SELECT term, id FROM version CROSS JOIN fact_terms(metadata, created_by) AS term
    WHERE id BETWEEN %(first)s AND %(last)s""",
    """INSERT INTO file (version_id, position, path, size, sha256, media_type, format,
        content_digest, runs)
    SELECT v, 0, 'model.safetensors', 1600000, sha256(('object' || v)::bytea),
        'application/octet-stream', 'safetensors', sha256(('content' || v)::bytea),
        jsonb_build_array(jsonb_build_array(v, 0, 1600000))
    FROM generate_series(%(first)s, %(last)s) v
    UNION ALL
    SELECT v, 1, 'config.json', 600, sha256(('config' || v %% 3)::bytea),
        'application/octet-stream', 'opaque', sha256(('config' || v %% 3)::bytea), '[]'
    FROM generate_series(%(first)s, %(last)s) v""",
    """INSERT INTO version_object (version_id, object_id)
    SELECT v, v FROM generate_series(%(first)s, %(last)s) v""",
    """INSERT INTO chunk (digest, object_id, start, size)
    SELECT sha256((v || '.' || c)::bytea), v, c * 16000, 16000
    FROM generate_series(%(first)s, %(last)s) v, generate_series(0, %(chunks)s - 1) c""",
    f"""INSERT INTO alias (model_id, name, version_id, revision, updated_by)
    SELECT DISTINCT ON (m) m, 'production', v, 1, 'bench' FROM {VERSIONS} ORDER BY m, v
    ON CONFLICT DO NOTHING""",
)
SEQUENCES = ("model", "object", "version")
STEP = 20_000
PUSHED_FROM = 10**9
"""Ids of what is really pushed start behind those of rows that are made here."""


def model_of(version: int) -> str:
    """Return the id of the model that has the version of this number."""
    number = version % 10 + 1 if version % 10 < 4 else 5 + version // 100
    return f"team-{number % 20}/model-{number}"


def fill(connection: psycopg.Connection, first: int, last: int, chunks: int) -> None:
    """Add versions ``first`` to ``last``, ``chunks`` chunks each, in steps."""
    connection.execute("SET synchronous_commit = off")
    for start in range(first, last + 1, STEP):
        end = min(last, start + STEP - 1)
        for statement in STATEMENTS:
            values = {"first": start, "last": end, "chunks": chunks}
            connection.execute(statement % values)  # all of them integers
        connection.commit()
    connection.execute(
        "UPDATE model SET version_count ="
        " (SELECT count(*) FROM version WHERE version.model_id = model.id)"
    )
    for table in SEQUENCES:
        connection.execute(
            f"SELECT setval(pg_get_serial_sequence('{table}', 'id'),"
            f" (SELECT greatest({PUSHED_FROM}, max(id)) FROM {table}))"
        )
    connection.commit()
    connection.autocommit = True
    connection.execute("VACUUM ANALYZE")


def main(database_url: str, first: int, last: int, chunks: int) -> None:
    """Fill and say how long it took and how large the tables are."""
    began = time.perf_counter()
    with psycopg.connect(database_url) as connection:
        fill(connection, first, last, chunks // (last - first + 1))
        sizes = connection.execute(
            "SELECT relname, pg_total_relation_size(oid) FROM pg_class WHERE relname = ANY(%s)",
            [["version", "file", "object", "chunk", "fact", "version_parent"]],
        ).fetchall()
    print(json.dumps({"elapsed_s": time.perf_counter() - began, "sizes": dict(sizes)}))


if __name__ == "__main__":
    main(sys.argv[1], *(int(value) for value in sys.argv[2:5]))
