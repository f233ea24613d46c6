"""SQL over what versions are found by."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

from sqlalchemy import text
from sqlalchemy.orm import Session

from ai_model_format.digest import Digest, raw_of
from registry_api.access import Caller
from registry_api.catalog import lists
from registry_api.catalog.lists import Condition
from registry_api.db.session import Driver

_KEEP = text("""
    INSERT INTO fact (term, version_id)
    SELECT term, id FROM version CROSS JOIN fact_terms(metadata, created_by) AS term
    WHERE id = :version_id
""")
# Each is answered by one index.
_TRUE: LiteralString = (
    "EXISTS (SELECT FROM fact WHERE term = fact_term(%s, %s::jsonb) AND version_id = version.id)"
)
_COMMIT: LiteralString = (
    "id IN (SELECT version_id FROM fact WHERE term >= 'git_commit=' || %s::text"
    " AND term < 'git_commit=' || %s::text || 'g')"
)
_HOLDS: LiteralString = "EXISTS (SELECT FROM file WHERE sha256 = %s AND version_id = version.id)"
_NAMED: LiteralString = "manifest_digest = %s"
_OF_MODELS: LiteralString = "model_id IN (SELECT id FROM model WHERE "


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


def find(
    driver: Driver, caller: Caller, question: Question, *, before: int | None, limit: int
) -> list[tuple[int, str]]:
    """Return what lists show of versions with ids below ``before``, newest first.

    Those that hold a digest and those that it names are asked for one by one: together, all
    that hold a file would be read before the newest of them are known.
    """
    common = list(_conditions(caller, question, before))
    if question.sha256 is None:
        return lists.versions(driver, common, limit)
    raw = [raw_of(question.sha256)]
    found = {
        version
        for condition in (_HOLDS, _NAMED)
        for version in lists.versions(driver, [*common, (condition, raw)], limit)
    }
    return sorted(found, reverse=True)[:limit]


def _conditions(caller: Caller, question: Question, before: int | None) -> Iterator[Condition]:
    for path, value in question.facts:
        yield _TRUE, [path, json.dumps(value)]
    if question.git_commit is not None:
        yield _COMMIT, [question.git_commit, question.git_commit]
    readable = lists.readable(caller, question.prefix)
    if readable:
        wanted, values = lists.joined(readable)
        yield _OF_MODELS + wanted + ")", values
    if before is not None:
        yield "id < %s", [before]
