"""SQL of the questions that are asked most: what a ref means, and where those bytes lie.

Each is one statement for the driver itself: SQLAlchemy takes several times as long as Postgres
to find one row.
"""

from collections.abc import Callable
from datetime import datetime
from typing import LiteralString, NamedTuple, TypeVar

from ai_model_format.digest import raw_of
from ai_model_format.names import LATEST
from registry_api.db.questions import Question, Row
from registry_api.db.session import Driver

T = TypeVar("T")

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
    SELECT name, 'sha256:' || encode(manifest_digest, 'hex'), size, stored_bytes, metadata::text,
        created_at, created_by, yanked_at, yank_reason,
        ARRAY(SELECT alias.name FROM alias WHERE version_id = version.id ORDER BY 1),
        (
            SELECT coalesce(json_agg(json_build_array(path, file.size,
                'sha256:' || encode(sha256, 'hex'), media_type, format) ORDER BY position), '[]')
            FROM file WHERE version_id = version.id
        )::text
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
    """All that is shown of a version.

    Facts are JSON, and so are files: of each its path, size, digest, media type and format.
    """

    name: str
    manifest_digest: str
    size: int
    stored_bytes: int
    facts: str
    created_at: datetime
    created_by: str
    yanked_at: datetime | None
    yank_reason: str | None
    aliases: tuple[str, ...]
    files: str

    @property
    def length(self) -> int:
        """Characters of the parts that may be long."""
        aliases, reason = sum(map(len, self.aliases)), len(self.yank_reason or "")
        return len(self.facts) + len(self.files) + aliases + reason


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


def shown(model_id: str, ref: str) -> Question[Shown]:
    """Ask what is shown of the version that a ref means."""
    return _of_meant(_SHOWN, model_id, ref, _read_shown)


def placed(model_id: str, ref: str) -> Question[Placed]:
    """Ask where the bytes of the version that a ref means lie."""
    return _of_meant(_PLACED, model_id, ref, lambda row: Placed(*row))


def stored_manifest(model_id: str, ref: str) -> Question[StoredManifest]:
    """Ask which manifest is that of the version that a ref means."""
    return _of_meant(_MANIFEST, model_id, ref, lambda row: StoredManifest(*row))


def has_model(driver: Driver, model_id: str) -> bool:
    """Say whether there is such a model."""
    return driver.execute("SELECT 1 FROM model WHERE name = %s", [model_id]).fetchone() is not None


def names(driver: Driver, model_id: str) -> list[str]:
    """Return the names of a model's newest versions and some of its aliases, each once."""
    found = driver.execute(_NAMES, {"model": model_id, "limit": MAX_NAMES}).fetchall()
    return list(dict.fromkeys(name for (name,) in found))


def _read_shown(row: Row) -> Shown:
    found = Shown(*row)
    return found._replace(aliases=tuple(found.aliases))


def _of_meant(
    query: LiteralString, model_id: str, ref: str, read: Callable[[Row], T]
) -> Question[T]:
    values = {"model": model_id, "ref": raw_of(ref) if ":" in ref else ref}
    kind = "latest" if ref == LATEST else "digest" if ":" in ref else "name"
    return Question(query + _MEANT[kind], values, read)
