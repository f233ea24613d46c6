"""Fill a registry's database with versions, files, objects and chunks, as pushes would.

``fill.py DATABASE_URL FIRST LAST CHUNKS``: versions FIRST (from 1 on) up to LAST, CHUNKS rows in
all for them. Postgres makes the rows itself: faster than any client could send them.
"""

import json
import sys
import time

import psycopg

PER_MODEL = 200
"""Versions of one model."""

STATEMENTS = (
    """INSERT INTO model (id, name) OVERRIDING SYSTEM VALUE
    SELECT m, 'team-' || m %% 20 || '/model-' || m
    FROM generate_series((%(first)s - 1) / %(per)s + 1, (%(last)s - 1) / %(per)s + 1) m
    ON CONFLICT DO NOTHING""",
    """INSERT INTO object (id, digest, size) OVERRIDING SYSTEM VALUE
    SELECT v, sha256(('object' || v)::bytea), 1600000
    FROM generate_series(%(first)s, %(last)s) v""",
    """INSERT INTO version (id, model_id, name, manifest_digest, size, stored_bytes, metadata,
        created_by) OVERRIDING SYSTEM VALUE
    SELECT v, (v - 1) / %(per)s + 1, 'v' || v, sha256(('manifest' || v)::bytea), 1600000, 1600000,
        jsonb_build_object(
            'parameters', jsonb_build_object('lr', v %% 7 * 0.001, 'epochs', v %% 50),
            'metrics', jsonb_build_object('accuracy', v %% 1000 / 1000.0),
            'dataset', jsonb_build_object('id', 'corpus-' || v %% 40, 'version', 'd' || v %% 9),
            'parents', jsonb_build_array(jsonb_build_object('version', 'v' || greatest(1, v - 1),
                'model_id', 'team-' || ((v - 1) / %(per)s + 1) %% 20 || '/model-'
                    || (v - 1) / %(per)s + 1))),
        'bench'
    FROM generate_series(%(first)s, %(last)s) v""",
    """INSERT INTO file (version_id, position, path, size, sha256, media_type, format,
        content_digest, runs)
    SELECT v, 0, 'model.safetensors', 1600000, sha256(('object' || v)::bytea),
        'application/octet-stream', 'safetensors', sha256(('content' || v)::bytea),
        jsonb_build_array(jsonb_build_array(v, 0, 1600000))
    FROM generate_series(%(first)s, %(last)s) v""",
    """INSERT INTO version_object (version_id, object_id)
    SELECT v, v FROM generate_series(%(first)s, %(last)s) v""",
    """INSERT INTO chunk (digest, object_id, start, size)
    SELECT sha256((v || '.' || c)::bytea), v, c * 16000, 16000
    FROM generate_series(%(first)s, %(last)s) v, generate_series(0, %(chunks)s - 1) c""",
    """INSERT INTO alias (model_id, name, version_id, revision, updated_by)
    SELECT (v - 1) / %(per)s + 1, 'production', v, 1, 'bench'
    FROM generate_series(%(first)s, %(last)s) v WHERE v %% %(per)s = 1
    ON CONFLICT DO NOTHING""",
)
SEQUENCES = ("model", "object", "version")
STEP = 20_000
PUSHED_FROM = 10**9
"""Ids of what is really pushed start behind those of rows that are made here."""


def fill(connection: psycopg.Connection, first: int, last: int, chunks: int) -> None:
    """Add versions ``first`` to ``last``, ``chunks`` chunks each, in steps."""
    connection.execute("SET synchronous_commit = off")
    for start in range(first, last + 1, STEP):
        end = min(last, start + STEP - 1)
        for statement in STATEMENTS:
            values = {"first": start, "last": end, "per": PER_MODEL, "chunks": chunks}
            connection.execute(statement % values)  # all of them integers
        connection.commit()
    for table in SEQUENCES:
        connection.execute(
            f"SELECT setval(pg_get_serial_sequence('{table}', 'id'),"
            f" (SELECT greatest({PUSHED_FROM}, max(id)) FROM {table}))"
        )
    connection.commit()
    connection.autocommit = True
    connection.execute("ANALYZE")


def main(database_url: str, first: int, last: int, chunks: int) -> None:
    """Fill and say how long it took and how large the tables are."""
    began = time.perf_counter()
    with psycopg.connect(database_url) as connection:
        fill(connection, first, last, chunks // (last - first + 1))
        sizes = connection.execute(
            "SELECT relname, pg_total_relation_size(oid) FROM pg_class WHERE relname = ANY(%s)",
            [["version", "file", "object", "chunk"]],
        ).fetchall()
    print(json.dumps({"elapsed_s": time.perf_counter() - began, "sizes": dict(sizes)}))


if __name__ == "__main__":
    main(sys.argv[1], *(int(value) for value in sys.argv[2:5]))
