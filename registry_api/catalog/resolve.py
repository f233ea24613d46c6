"""SQL of the questions that are asked most: what a ref means, and where those bytes lie.

Each is one statement, run by the driver itself: SQLAlchemy takes several times as long as
Postgres to find one row.
"""

from datetime import datetime
from typing import Any, LiteralString, NamedTuple

from ai_model_format.digest import raw_of
from ai_model_format.names import LATEST
from registry_api.db.session import Driver

_MEANT: dict[str, LiteralString] = {
    "latest": """(
        SELECT id FROM version
        WHERE model_id = (SELECT id FROM model WHERE name = %(model)s) AND yanked_at IS NULL
        ORDER BY id DESC LIMIT 1
    )""",
    "digest": """(
        SELECT id FROM version
        WHERE model_id = (SELECT id FROM model WHERE name = %(model)s)
        AND manifest_digest = %(ref)s
        ORDER BY id DESC LIMIT 1
    )""",
    "name": """coalesce(
        (SELECT version.id FROM version JOIN model ON model.id = model_id
            WHERE model.name = %(model)s AND version.name = %(ref)s),
        (SELECT version_id FROM alias JOIN model ON model.id = model_id
            WHERE model.name = %(model)s AND alias.name = %(ref)s)
    )""",
}
"""The id of the version that a ref means, by the kind of ref; each by one index."""

_SHOWN: LiteralString = """
    SELECT name, 'sha256:' || encode(manifest_digest, 'hex'), size, stored_bytes, metadata,
        created_at, created_by, yanked_at, yank_reason,
        ARRAY(SELECT alias.name FROM alias WHERE version_id = version.id ORDER BY 1),
        (
            SELECT json_agg(json_build_array(path, file.size, 'sha256:' || encode(sha256, 'hex'),
                media_type, format) ORDER BY position)
            FROM file WHERE version_id = version.id
        )
    FROM version WHERE id = """
_PLACED: LiteralString = """
    SELECT name, 'sha256:' || encode(manifest_digest, 'hex'),
        (
            SELECT json_agg(json_build_array(path, runs) ORDER BY position)
            FROM file WHERE version_id = version.id
        ),
        (
            SELECT json_agg(json_build_array(object.id, 'sha256:' || encode(digest, 'hex'),
                object.size))
            FROM version_object JOIN object ON object.id = object_id
            WHERE version_id = version.id
        )
    FROM version WHERE id = """
_MANIFEST: LiteralString = """
    SELECT name, 'sha256:' || encode(manifest_digest, 'hex'),
        (SELECT object.size FROM object WHERE digest = manifest_digest)
    FROM version WHERE id = """
_NAMES: LiteralString = """
    (
        SELECT version.name FROM version JOIN model ON model.id = model_id
        WHERE model.name = %(model)s ORDER BY version.id DESC LIMIT %(limit)s
    ) UNION ALL (
        SELECT alias.name FROM alias JOIN model ON model.id = model_id
        WHERE model.name = %(model)s ORDER BY alias.name LIMIT %(limit)s
    )"""
MAX_NAMES = 20
"""Of the newest versions, and of aliases: comparing a mistyped ref with more takes long."""


class Shown(NamedTuple):
    """All that is shown of a version; ``files`` has path, size, digest, media type and format."""

    name: str
    manifest_digest: str
    size: int
    stored_bytes: int
    facts: dict[str, Any]
    created_at: datetime
    created_by: str
    yanked_at: datetime | None
    yank_reason: str | None
    aliases: list[str]
    files: list[tuple[str, int, str, str, str]]


class Placed(NamedTuple):
    """Where a version's bytes lie: path and runs of files; id, digest and size of objects."""

    name: str
    manifest_digest: str
    files: list[tuple[str, list[tuple[int, int, int]]]]
    objects: list[tuple[int, str, int]]


class StoredManifest(NamedTuple):
    """A version's name, and the digest and bytes of its manifest."""

    name: str
    digest: str
    size: int


def shown(driver: Driver, model_id: str, ref: str) -> Shown | None:
    """Return what is shown of the version that a ref means."""
    row = _one(driver, _SHOWN, model_id, ref)
    return Shown(*row) if row else None


def placed(driver: Driver, model_id: str, ref: str) -> Placed | None:
    """Return where the bytes of the version that a ref means lie."""
    row = _one(driver, _PLACED, model_id, ref)
    return Placed(*row) if row else None


def stored_manifest(driver: Driver, model_id: str, ref: str) -> StoredManifest | None:
    """Return which manifest is that of the version that a ref means."""
    row = _one(driver, _MANIFEST, model_id, ref)
    return StoredManifest(*row) if row else None


def has_model(driver: Driver, model_id: str) -> bool:
    """Say whether there is such a model."""
    return driver.execute("SELECT 1 FROM model WHERE name = %s", [model_id]).fetchone() is not None


def names(driver: Driver, model_id: str) -> list[str]:
    """Return the names of a model's newest versions and some of its aliases, each once."""
    found = driver.execute(_NAMES, {"model": model_id, "limit": MAX_NAMES}).fetchall()
    return list(dict.fromkeys(name for (name,) in found))


def _one(driver: Driver, query: LiteralString, model_id: str, ref: str) -> tuple[Any, ...] | None:
    values = {"model": model_id, "ref": raw_of(ref) if ":" in ref else ref}
    kind = "latest" if ref == LATEST else "digest" if ":" in ref else "name"
    return driver.execute(query + _MEANT[kind], values).fetchone()
