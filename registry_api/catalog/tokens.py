"""Make, list and revoke tokens. A secret is shown once and never stored."""

import secrets
import uuid
from datetime import UTC, datetime, timedelta

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from ai_model_format.digest import digest_of
from ai_model_format.wire import Role, TokenCreated, TokenInfo, TokenList, TokenRequest
from registry_api.access import Caller, check_glob, secret_from
from registry_api.catalog import queries
from registry_api.catalog.pages import decode_token_page_token, encode_page_token
from registry_api.db.tables import TokenRow
from registry_api.errors import IdempotencyKeyReused, TokenNotFound
from registry_api.events.queries import record

SEED_BYTES = 64


def create(
    session: Session, caller: Caller, request: TokenRequest, *, seed: bytes | None = None
) -> TokenCreated:
    """Make a token.

    Args:
        session: one transaction.
        caller: who makes it.
        request: what it is to be.
        seed: 64 bytes that nobody can guess, from which its id and its secret are made: the
            same seed again gives the same token. Random where not given.

    Raises:
        InvalidRequest: a glob over model ids cannot match one.
        IdempotencyKeyReused: the seed gave another token before.
    """
    seed = seed or secrets.token_bytes(SEED_BYTES)
    secret = secret_from(seed[-32:])
    wanted = _new_row(request, uuid.UUID(bytes=seed[:16], version=4), secret)
    row, is_new = _insert_or_find(session, wanted)
    if is_new:
        after = {"name": row.name, "role": row.role, "models": row.models}
        record(session, caller, "token.created", subject=str(row.id), after=after)
    elif not _is_same(row, wanted):
        raise IdempotencyKeyReused("this Idempotency-Key made another token before; take a new one")
    return TokenCreated(**_shown(row).model_dump(), token=secret)


def list_page(session: Session, *, page_size: int, page_token: str | None) -> TokenList:
    """Return tokens, newest first, without their secrets.

    Raises:
        InvalidRequest: the page token is not one of ours.
    """
    before = decode_token_page_token(page_token)
    rows = queries.token_page(session, before=before, limit=page_size + 1)
    shown = rows[:page_size]
    more = len(rows) > page_size
    last = f"{shown[-1].created_at.isoformat()} {shown[-1].id}" if more else ""
    return TokenList(
        tokens=[_shown(row) for row in shown],
        next_page_token=encode_page_token(last) if more else None,
    )


def revoke(session: Session, caller: Caller, token_id: uuid.UUID) -> None:
    """Make a token worthless from now on; again, it does nothing.

    Raises:
        TokenNotFound: there is none.
    """
    row = session.get(TokenRow, token_id, with_for_update=True)
    if row is None:
        raise TokenNotFound(f"there is no token {token_id}")
    if row.revoked_at is None:
        row.revoked_at = datetime.now(UTC)
        record(session, caller, "token.revoked", subject=str(row.id), before={"name": row.name})


def _new_row(request: TokenRequest, token_id: uuid.UUID, secret: str) -> TokenRow:
    now = datetime.now(UTC)
    return TokenRow(
        id=token_id,
        name=request.name,
        secret_hash=digest_of(secret.encode()),
        role=request.role,
        models=[check_glob(glob) for glob in request.models],
        created_at=now,
        expires_at=now + timedelta(seconds=request.expires_in_s) if request.expires_in_s else None,
    )


def _insert_or_find(session: Session, wanted: TokenRow) -> tuple[TokenRow, bool]:
    """Add a token unless it is there; also say whether it was added."""
    try:
        with session.begin_nested():
            session.add(wanted)
    except IntegrityError:  # the same creation again
        return session.get_one(TokenRow, wanted.id), False
    return wanted, True


def _is_same(row: TokenRow, wanted: TokenRow) -> bool:
    return (row.name, row.role, row.models, _life(row)) == (
        wanted.name,
        wanted.role,
        wanted.models,
        _life(wanted),
    )


def _life(row: TokenRow) -> timedelta | None:
    return row.expires_at - row.created_at if row.expires_at else None


def _shown(row: TokenRow) -> TokenInfo:
    role: Role = row.role  # type: ignore[assignment]  # a constraint says so
    return TokenInfo(
        token_id=str(row.id),
        name=row.name,
        role=role,
        models=row.models,
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        last_used_at=row.last_used_at,
    )
