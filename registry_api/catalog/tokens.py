"""Make, list and revoke tokens. A secret is shown once and never stored."""

import uuid
from datetime import UTC, datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from ai_model_format.digest import digest_of
from ai_model_format.wire import Role, TokenCreated, TokenInfo, TokenList, TokenRequest
from registry_api.access import Caller, check_glob, new_secret
from registry_api.db.tables import TokenRow
from registry_api.errors import TokenNotFound
from registry_api.events.queries import record


def create(session: Session, caller: Caller, request: TokenRequest) -> TokenCreated:
    """Make a token.

    Raises:
        InvalidRequest: a glob over model ids cannot match one.
    """
    now = datetime.now(UTC)
    secret = new_secret()
    row = TokenRow(
        id=uuid.uuid4(),
        name=request.name,
        secret_hash=digest_of(secret.encode()),
        role=request.role,
        models=[check_glob(glob) for glob in request.models],
        created_at=now,
        expires_at=now + timedelta(seconds=request.expires_in_s) if request.expires_in_s else None,
    )
    session.add(row)
    shown = _shown(row)
    after = {"name": row.name, "role": row.role, "models": row.models}
    record(session, caller, "token.created", subject=str(row.id), after=after)
    return TokenCreated(**shown.model_dump(), token=secret)


def list_all(session: Session) -> TokenList:
    """Return all tokens, newest first, without their secrets."""
    rows = session.scalars(select(TokenRow).order_by(TokenRow.created_at.desc(), TokenRow.id))
    return TokenList(tokens=[_shown(row) for row in rows])


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
