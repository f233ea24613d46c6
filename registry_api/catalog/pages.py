"""Page tokens: where a page ended, opaque to callers. Pure."""

import base64
import binascii
import uuid
from collections.abc import Sequence
from datetime import datetime

from registry_api.errors import InvalidRequest


def encode_page_token(last: str) -> str:
    """Return the token of the page behind the item ``last``."""
    return base64.urlsafe_b64encode(last.encode()).decode().rstrip("=")


def decode_page_token(token: str | None) -> str | None:
    """Return the last item of the page before; ``None`` for the first page.

    Raises:
        InvalidRequest: no page ended with such a token.
    """
    if token is None:
        return None
    try:
        padded = token.encode("ascii") + b"=" * (-len(token) % 4)
        last = base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except (ValueError, binascii.Error) as error:
        raise _not_ours() from error
    if "\0" in last or not last:
        raise _not_ours()
    return last


def decode_numeric_page_token(token: str | None) -> int | None:
    """Return the last item's number of the page before; ``None`` for the first page.

    Raises:
        InvalidRequest: no page ended with such a token.
    """
    last = decode_page_token(token)
    if last is None:
        return None
    if not last.isascii() or not last.isdigit() or len(last) > 18:
        raise _not_ours()
    return int(last)


def decode_token_page_token(token: str | None) -> tuple[datetime, uuid.UUID] | None:
    """Return when the last token of the page before was made, and its id.

    Raises:
        InvalidRequest: no page ended with such a token.
    """
    last = decode_page_token(token)
    if last is None:
        return None
    created_at, _, token_id = last.partition(" ")
    try:
        return datetime.fromisoformat(created_at), uuid.UUID(token_id)
    except ValueError as error:
        raise _not_ours() from error


def version_page(rows: Sequence[tuple[int, str]], page_size: int) -> bytes:
    """Return the JSON of a ``VersionPage``, of ids and JSON, with a token where there are more."""
    shown = rows[:page_size]
    token = f'"{encode_page_token(str(shown[-1][0]))}"' if len(rows) > page_size else "null"
    listed = ",".join(summary for _, summary in shown)
    return f'{{"versions":[{listed}],"next_page_token":{token}}}'.encode()


def _not_ours() -> InvalidRequest:
    return InvalidRequest("page_token is not one that this service gave")
