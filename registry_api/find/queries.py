"""SQL over what versions are found by."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

from sqlalchemy import text
from sqlalchemy.orm import Session

from ai_model_format.digest import Digest, raw_of
from registry_api.access import Caller
from registry_api.db.session import Driver

_KEEP = text("""
    INSERT INTO fact (term, version_id)
    SELECT term, id FROM version CROSS JOIN fact_terms(metadata, created_by) AS term
    WHERE id = :version_id
""")
_FOUND: LiteralString = "SELECT id FROM version WHERE "
# Each a condition on one row of version, answered by one index.
_TRUE: LiteralString = (
    "EXISTS (SELECT FROM fact WHERE term = fact_term(%s, %s::jsonb) AND version_id = version.id)"
)
_COMMIT: LiteralString = (
    "id IN (SELECT version_id FROM fact WHERE term >= 'git_commit=' || %s::text"
    " AND term < 'git_commit=' || %s::text || 'g')"
)
_BYTES: LiteralString = (
    "id IN (SELECT version_id FROM file WHERE sha256 = %s"
    " UNION SELECT id FROM version WHERE manifest_digest = %s)"
)
_PREFIX: LiteralString = "model_id IN (SELECT id FROM model WHERE starts_with(name, %s))"
_READABLE: LiteralString = "model_id IN (SELECT id FROM model WHERE name LIKE ANY (%s))"
_BEFORE: LiteralString = "id < %s"


@dataclass(frozen=True, slots=True)
class Question:
    """What must be true of a version.

    Attributes:
        facts: path in the metadata and the value there, as ``fact`` has them.
        git_commit: what the commit starts with.
        sha256: of a file that it holds, or of its manifest.
        prefix: what its model's id starts with.
    """

    facts: Sequence[tuple[str, Any]] = ()
    git_commit: str | None = None
    sha256: Digest | None = None
    prefix: str = ""


def keep_facts(session: Session, version_pk: int) -> None:
    """Make rows of what a new version can be found by."""
    session.execute(_KEEP, {"version_id": version_pk})


def find_ids(
    driver: Driver, caller: Caller, question: Question, *, before: int | None, limit: int
) -> list[int]:
    """Return ids below ``before`` of versions that the caller may read, newest first.

    Planned anew each time: which index to begin with depends on what is asked for.
    """
    conditions = list(_conditions(caller, question, before))
    where: LiteralString = " AND ".join(condition for condition, _ in conditions) or "true"
    query: LiteralString = _FOUND + where + " ORDER BY id DESC LIMIT %s"
    values = [value for _, given in conditions for value in given]
    return [found for (found,) in driver.execute(query, [*values, limit], prepare=False)]


def _conditions(
    caller: Caller, question: Question, before: int | None
) -> Iterator[tuple[LiteralString, tuple[Any, ...]]]:
    for path, value in question.facts:
        yield _TRUE, (path, json.dumps(value))
    if question.git_commit is not None:
        yield _COMMIT, (question.git_commit, question.git_commit)
    if question.sha256 is not None:
        yield _BYTES, (raw_of(question.sha256), raw_of(question.sha256))
    if question.prefix:
        yield _PREFIX, (question.prefix,)
    if not caller.sees_all:
        yield _READABLE, (caller.patterns,)
    if before is not None:
        yield _BEFORE, (before,)
