"""SQL of lists: models by id, versions newest first, with all that a page shows of them.

Each is one statement, run by the driver itself. Postgres writes the JSON of versions: making
objects of a hundred rows and JSON of these takes longer than finding them. Planned anew each
time: which index to begin with depends on what is asked for.
"""

from collections.abc import Sequence
from typing import Any, LiteralString

from psycopg.rows import dict_row

from registry_api.access import Caller
from registry_api.db.session import Driver

Condition = tuple[LiteralString, Sequence[Any]]
"""A condition on one row of ``model`` or ``version``, with its values."""

_MODELS: tuple[LiteralString, LiteralString] = (
    """
    SELECT name AS model_id, created_at, version_count,
        (
            SELECT version.name FROM version
            WHERE model_id = model.id AND yanked_at IS NULL ORDER BY version.id DESC LIMIT 1
        ) AS latest
    FROM model WHERE """,
    " ORDER BY name LIMIT %s",
)
_VERSIONS: tuple[LiteralString, LiteralString] = (
    """
    SELECT version.id, json_build_object(
        'model_id', model.name, 'version', version.name,
        'manifest_digest', 'sha256:' || encode(manifest_digest, 'hex'), 'size', size,
        'created_at', json_time(version.created_at), 'created_by', created_by,
        'yanked_at', json_time(yanked_at),
        'dataset', json_dataset(dataset_id, dataset_version), 'git_commit', git_commit,
        'aliases', ARRAY(SELECT alias.name FROM alias WHERE version_id = version.id ORDER BY 1)
        )::text
    FROM (SELECT id FROM version WHERE """,
    """ ORDER BY id DESC LIMIT %s) AS chosen
    JOIN version USING (id) JOIN model ON model.id = model_id
    ORDER BY version.id DESC""",
)


def models(driver: Driver, conditions: Sequence[Condition], limit: int) -> list[dict[str, Any]]:
    """Return fields of ``ModelInfo`` for the models of which all conditions are true, by id."""
    text, values = joined(conditions)
    before, after = _MODELS
    with driver.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(before + text + after, [*values, limit], prepare=False).fetchall()


def versions(driver: Driver, conditions: Sequence[Condition], limit: int) -> list[tuple[int, str]]:
    """Return id and JSON of a ``VersionSummary`` for such versions, newest first."""
    text, values = joined(conditions)
    before, after = _VERSIONS
    answer = driver.execute(before + text + after, [*values, limit], prepare=False)
    return [(version_pk, summary) for version_pk, summary in answer]


def readable(caller: Caller, prefix: str) -> list[Condition]:
    """Return the conditions on models that the caller may read and whose id starts so."""
    wanted: list[Condition] = []
    if prefix:
        wanted.append(("starts_with(name, %s)", [prefix]))
    if not caller.sees_all:
        wanted.append(("name LIKE ANY (%s)", [caller.patterns]))
    return wanted


def joined(conditions: Sequence[Condition]) -> Condition:
    """Return one condition that is true where all of them are. Pure."""
    text: LiteralString = " AND ".join(text for text, _ in conditions) or "true"
    return text, [value for _, values in conditions for value in values]
