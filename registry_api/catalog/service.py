"""Show models and versions, and mark versions as not to be used."""

import hashlib
import json
from datetime import UTC, datetime
from functools import lru_cache

from sqlalchemy.orm import Session

from ai_model_format.wire import (
    AliasList,
    FileInfo,
    Metadata,
    ModelInfo,
    ModelPage,
    VersionInfo,
)
from registry_api.access import Caller
from registry_api.catalog import aliases, lists, queries, resolve
from registry_api.catalog.lists import Condition
from registry_api.catalog.missing import ask_version
from registry_api.catalog.pages import (
    decode_numeric_page_token,
    decode_page_token,
    encode_page_token,
    version_page,
)
from registry_api.catalog.resolve import Shown
from registry_api.db.session import Driver, driver_of
from registry_api.errors import ModelNotFound, PreconditionFailed
from registry_api.events.queries import record
from registry_api.get.ranges import tag_matches
from registry_api.get.service import find_version

MAX_REMEMBERED = 2048
"""Characters of a version whose JSON is remembered: 4,096 such take 20 MiB, 100 at the worst."""


def list_models(
    driver: Driver, caller: Caller, *, prefix: str, page_size: int, page_token: str | None
) -> ModelPage:
    """Return models that the caller may read, by id.

    Raises:
        InvalidRequest: the page token is not one of ours.
    """
    after = decode_page_token(page_token) or ""
    wanted = [*lists.readable(caller, prefix), ("name > %s", [after])]
    rows = lists.models(driver, wanted, page_size + 1)
    shown, more = rows[:page_size], len(rows) > page_size
    token = encode_page_token(shown[-1]["model_id"]) if more else None
    return ModelPage.model_validate({"models": shown, "next_page_token": token})


def show_model(driver: Driver, model_id: str) -> ModelInfo:
    """Return one model.

    Raises:
        ModelNotFound: there is none.
    """
    rows = lists.models(driver, [("name = %s", [model_id])], 1)
    if not rows:
        raise ModelNotFound(model_id)
    return ModelInfo.model_validate(rows[0])


def list_versions(
    driver: Driver, model_id: str, *, page_size: int, page_token: str | None
) -> bytes:
    """Return versions of a model, newest first, as the JSON of a ``VersionPage``.

    Raises:
        ModelNotFound: there is no such model.
        InvalidRequest: the page token is not one of ours.
    """
    before = decode_numeric_page_token(page_token)
    wanted: list[Condition] = [
        ("model_id = (SELECT id FROM model WHERE name = %s)", [model_id]),
        *([("id < %s", [before])] if before is not None else []),
    ]
    rows = lists.versions(driver, wanted, page_size + 1)
    if not rows and not resolve.has_model(driver, model_id):
        raise ModelNotFound(model_id)
    return version_page(rows, page_size)


def show_version(driver: Driver, model_id: str, ref: str) -> tuple[bytes, str]:
    """Return what is known of a version, as the JSON of a ``VersionInfo``, and an ETag of that.

    Raises:
        ModelNotFound: there is no such model.
        VersionNotFound: it has no such version.
    """
    return shown_json(model_id, ask_version(driver, resolve.shown, model_id, ref))


def yank(
    session: Session,
    caller: Caller,
    model_id: str,
    ref: str,
    reason: str | None,
    *,
    if_match: str | None = None,
) -> tuple[bytes, str]:
    """Mark a version as not to be used, or take that back where ``reason`` is ``None``.

    Raises:
        ModelNotFound: there is no such model.
        VersionNotFound: it has no such version.
        PreconditionFailed: what is shown of the version is another than ``if_match``.
    """
    version = find_version(session, model_id, ref)
    session.refresh(version, with_for_update=True)
    if if_match is not None and not tag_matches(
        if_match, show_version(driver_of(session), model_id, version.name)[1]
    ):
        raise PreconditionFailed("the version is not what If-Match says; look at it again")
    if version.yank_reason != reason:
        record(
            session,
            caller,
            "version.unyanked" if reason is None else "version.yanked",
            subject=version.name,
            model_id=model_id,
            before={"yank_reason": version.yank_reason},
            after={"yank_reason": reason},
        )
        version.yank_reason = reason
        version.yanked_by = None if reason is None else caller.name
        version.yanked_at = None if reason is None else datetime.now(UTC)
    session.flush()
    return show_version(driver_of(session), model_id, version.name)


def list_aliases(
    session: Session, model_id: str, *, page_size: int, page_token: str | None
) -> AliasList:
    """Return aliases of a model, by name.

    Raises:
        ModelNotFound: there is no such model.
        InvalidRequest: the page token is not one of ours.
    """
    after = decode_page_token(page_token) or ""
    model = queries.find_model(session, model_id)
    if model is None:
        raise ModelNotFound(model_id)
    rows = queries.alias_page(session, model.id, after=after, limit=page_size + 1)
    shown = [aliases.info(model, *row) for row in rows[:page_size]]
    more = len(rows) > page_size
    return AliasList(
        aliases=shown, next_page_token=encode_page_token(shown[-1].alias) if more else None
    )


def shown_json(model_id: str, row: Shown) -> tuple[bytes, str]:
    """Return the JSON of a ``VersionInfo``, and an ETag of that. Pure.

    Remembered for small versions: when many ask for one at once, making it is a fifth of the work.
    """
    make = _remembered_json if row.length <= MAX_REMEMBERED else _make_json
    return make(model_id, row)


def _make_json(model_id: str, row: Shown) -> tuple[bytes, str]:
    info = VersionInfo(
        model_id=model_id,
        version=row.name,
        manifest_digest=row.manifest_digest,
        size=row.size,
        stored_bytes=row.stored_bytes,
        created_at=row.created_at,
        created_by=row.created_by,
        yanked_at=row.yanked_at,
        yank_reason=row.yank_reason,
        aliases=list(row.aliases),
        metadata=Metadata.model_validate(json.loads(row.facts)),
        files=[
            FileInfo(path=path, size=size, sha256=sha256, media_type=media_type, format=format)
            for path, size, sha256, media_type, format in json.loads(row.files)
        ],
    )
    data = info.model_dump_json().encode()
    return data, f'"{hashlib.sha256(data).hexdigest()[:32]}"'


_remembered_json = lru_cache(maxsize=4096)(_make_json)
