"""SQL over models, versions and aliases."""

import uuid
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import (
    or_,
    select,
    tuple_,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from ai_model_format.digest import Digest
from ai_model_format.names import LATEST
from registry_api.db.tables import AliasRow, FileRow, ModelRow, TokenRow, VersionRow


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


def token_page(
    session: Session, *, before: tuple[datetime, uuid.UUID] | None, limit: int
) -> Sequence[TokenRow]:
    """Return tokens made before (time, id), newest first."""
    query = select(TokenRow).order_by(TokenRow.created_at.desc(), TokenRow.id.desc()).limit(limit)
    if before is not None:
        query = query.where(tuple_(TokenRow.created_at, TokenRow.id) < before)
    return session.scalars(query).all()
