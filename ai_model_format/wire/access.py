"""Tokens and who the caller is."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from ai_model_format.wire.base import Request, Response, ShortText

Role = Literal["reader", "writer", "admin"]


class TokenRequest(Request):
    """Make a token."""

    name: ShortText
    role: Role
    models: Annotated[list[ShortText], Field(min_length=1, max_length=100)] = ["*"]
    expires_in_s: Annotated[int, Field(strict=True, ge=1, le=10 * 366 * 86400)] | None = None


class TokenInfo(Response):
    """A token, without its secret.

    ``models`` are globs over model ids that the token may use.
    """

    token_id: str
    name: str
    role: Role
    models: list[str]
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None


class TokenCreated(TokenInfo):
    """A new token with its secret, shown this once."""

    token: str


class TokenList(Response):
    """Tokens, newest first."""

    tokens: list[TokenInfo]
    next_page_token: str | None = None


class Identity(Response):
    """Who the caller is."""

    name: str
    role: Role
    models: list[str]
    endpoint_version: str
