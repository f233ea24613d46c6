"""SQL over models, versions and aliases."""

import uuid
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Select,
    any_,
    bindparam,
    or_,
    select,
    tuple_,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from ai_model_format.digest import Digest
from ai_model_format.names import LATEST
from registry_api.access import Caller
from registry_api.db.tables import AliasRow, FileRow, ModelRow, TokenRow, VersionRow

_IDS = ARRAY(BigInteger)
"""Ids as one value: a statement with one for each id takes longer to write than to run."""
_SUMMARY = (
    VersionRow.id,
    VersionRow.name,
    VersionRow.manifest_digest,
    VersionRow.size,
    VersionRow.created_at,
    VersionRow.created_by,
    VersionRow.yanked_at,
    VersionRow.dataset_id,
    VersionRow.dataset_version,
    VersionRow.git_commit,
)


def find_model(session: Session, model_id: str) -> ModelRow | None:
    """Return a model's row."""
    return session.scalar(select(ModelRow).where(ModelRow.name == model_id))


def lock_model(session: Session, model_id: str, *, create: bool = False) -> ModelRow | None:
    """Return a model's row, locked until the transaction ends: one at a time takes its names."""
    if create:
        session.execute(insert(ModelRow).values(name=model_id).on_conflict_do_nothing())
    return session.scalar(select(ModelRow).where(ModelRow.name == model_id).with_for_update())


def find_version(session: Session, model_pk: int, name: str) -> VersionRow | None:
    """Return the version of this name."""
    return session.scalar(
        select(VersionRow).where(VersionRow.model_id == model_pk, VersionRow.name == name)
    )


def find_alias(session: Session, model_pk: int, name: str) -> AliasRow | None:
    """Return the alias of this name."""
    return session.get(AliasRow, (model_pk, name))


def resolve(session: Session, model_id: str, ref: str) -> VersionRow | None:
    """Return the version that a ref means: by name, alias, ``latest`` or manifest digest.

    A digest that several versions of the model have means the newest of them.
    """
    of_model = select(VersionRow).join(ModelRow).where(ModelRow.name == model_id)
    newest = of_model.order_by(VersionRow.id.desc()).limit(1)
    if ref == LATEST:
        return session.scalar(newest.where(VersionRow.yanked_at.is_(None)))
    if ":" in ref:
        return session.scalar(newest.where(VersionRow.manifest_digest == ref))
    aliased = (
        select(AliasRow.version_id)
        .join(ModelRow, ModelRow.id == AliasRow.model_id)
        .where(ModelRow.name == model_id, AliasRow.name == ref)
        .scalar_subquery()
    )
    return session.scalar(of_model.where(or_(VersionRow.name == ref, VersionRow.id == aliased)))


def files_of(session: Session, version_pk: int) -> Sequence[FileRow]:
    """Return the files of a version, in order."""
    return session.scalars(
        select(FileRow).where(FileRow.version_id == version_pk).order_by(FileRow.position)
    ).all()


def aliases_of(session: Session, version_pks: Iterable[int]) -> dict[int, list[str]]:
    """Return the aliases of each version, sorted."""
    rows = session.execute(
        select(AliasRow.version_id, AliasRow.name)
        .where(AliasRow.version_id == any_(bindparam(None, list(version_pks), _IDS)))
        .order_by(AliasRow.name)
    )
    found: dict[int, list[str]] = {}
    for version_pk, name in rows:
        found.setdefault(version_pk, []).append(name)
    return found


def alias_page(
    session: Session, model_pk: int, *, after: str, limit: int
) -> Sequence[tuple[AliasRow, str, Digest]]:
    """Return aliases of a model by name, each with the name and digest of its version."""
    rows = session.execute(
        select(AliasRow, VersionRow.name, VersionRow.manifest_digest)
        .join(VersionRow, VersionRow.id == AliasRow.version_id)
        .where(AliasRow.model_id == model_pk, AliasRow.name > after)
        .order_by(AliasRow.name)
        .limit(limit)
    )
    return [(alias, name, digest) for alias, name, digest in rows]


def version_page(
    session: Session, model_pk: int, *, before: int | None, limit: int
) -> Sequence[Any]:
    """Return what lists show of a model's versions with ids below ``before``, newest first."""
    query = select(*_SUMMARY).where(VersionRow.model_id == model_pk)
    if before is not None:
        query = query.where(VersionRow.id < before)
    return session.execute(query.order_by(VersionRow.id.desc()).limit(limit)).all()


def summaries_of(session: Session, version_pks: Iterable[int]) -> Sequence[Any]:
    """Return the same of any versions, each with its model's id as ``model_id``, newest first."""
    return session.execute(
        select(*_SUMMARY, ModelRow.name.label("model_id"))
        .join(ModelRow)
        .where(VersionRow.id == any_(bindparam(None, list(version_pks), _IDS)))
        .order_by(VersionRow.id.desc())
    ).all()


def model_page(
    session: Session, caller: Caller, *, prefix: str, after: str, limit: int
) -> Sequence[Any]:
    """Return models by id: (name, created_at, version count, name of the newest version)."""
    query = _with_counts().where(ModelRow.name > after).order_by(ModelRow.name).limit(limit)
    if prefix:
        query = query.where(ModelRow.name.startswith(prefix, autoescape=True))
    if not caller.sees_all:
        query = query.where(_selected_by(caller))
    return session.execute(query).all()


def token_page(
    session: Session, *, before: tuple[datetime, uuid.UUID] | None, limit: int
) -> Sequence[TokenRow]:
    """Return tokens made before (time, id), newest first."""
    query = select(TokenRow).order_by(TokenRow.created_at.desc(), TokenRow.id.desc()).limit(limit)
    if before is not None:
        query = query.where(tuple_(TokenRow.created_at, TokenRow.id) < before)
    return session.scalars(query).all()


def model_with_counts(session: Session, model_id: str) -> Any | None:
    """Return one model as ``model_page`` does, ``None`` where there is none."""
    return session.execute(_with_counts().where(ModelRow.name == model_id)).one_or_none()


def _with_counts() -> Select[Any]:
    latest = (
        select(VersionRow.name)
        .where(VersionRow.model_id == ModelRow.id, VersionRow.yanked_at.is_(None))
        .order_by(VersionRow.id.desc())
        .limit(1)
        .correlate(ModelRow)
    ).scalar_subquery()
    return select(ModelRow.name, ModelRow.created_at, ModelRow.version_count, latest)


def _selected_by(caller: Caller) -> ColumnElement[bool]:
    return or_(*(ModelRow.name.like(pattern) for pattern in caller.patterns))
