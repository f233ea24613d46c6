"""Who may do what: tokens, roles, globs over model ids. Knows no HTTP.

A token's secret has 256 random bits, so a plain SHA-256 of it is enough to
store, and looking it up by that hash tells an attacker nothing by its timing.
"""

import base64
import hmac
import re
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from ai_model_format.digest import Digest, digest_of
from ai_model_format.wire import Role
from registry_api.db.tables import TokenRow
from registry_api.errors import Forbidden, InvalidRequest, Unauthenticated

GLOB_PATTERN = r"^[a-z0-9._/*?-]{1,200}$"
_GLOB = re.compile(GLOB_PATTERN, re.ASCII)
_SEEN_EVERY = timedelta(minutes=1)
_RANKS: dict[str, int] = {"reader": 0, "writer": 1, "admin": 2}


def secret_from(raw: bytes) -> str:
    """Return the secret of a token, made of 32 bytes that nobody can guess. Pure."""
    return "aim_" + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def check_glob(glob: str) -> str:
    """Return ``glob`` if it can select model ids.

    Raises:
        InvalidRequest: it holds a character that no model id has.
    """
    if not _GLOB.fullmatch(glob):
        raise InvalidRequest(
            f"{glob[:80]!r} selects no model ids: these are lower-case letters, digits, '.', '_',"
            " '-' and '/'; '*' stands for any characters, '?' for one"
        )
    return glob


def like_pattern(glob: str) -> str:
    """Return the glob as SQL's ``LIKE`` has it. Pure."""
    escaped = glob.replace("_", r"\_")
    return escaped.replace("*", "%").replace("?", "_")


def glob_matches(glob: str, model_id: str) -> bool:
    """Say whether a glob selects a model; ``*`` matches across the slash. Pure."""
    expression = re.escape(glob).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(expression, model_id, re.DOTALL) is not None


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request, and what they may do.

    Attributes:
        token_id: of their token; ``None`` for somebody without one.
        name: as history has it.
        role: reader, writer (reads too) or admin (all).
        models: globs over the model ids they may use.
    """

    token_id: uuid.UUID | None
    name: str
    role: Role
    models: tuple[str, ...]

    @property
    def sees_all(self) -> bool:
        """Whether no model is hidden from them."""
        return "*" in self.models

    @property
    def patterns(self) -> list[str]:
        """Their globs as SQL's ``LIKE`` has them."""
        return [like_pattern(glob) for glob in self.models]

    def may_use(self, model_id: str) -> bool:
        """Say whether their token is for this model."""
        return any(glob_matches(glob, model_id) for glob in self.models)

    def require(self, role: Role, model_id: str | None = None) -> None:
        """Insist on a role, and on a model where one is named.

        Raises:
            Forbidden: the token does not give it.
        """
        if _RANKS[self.role] < _RANKS[role]:
            raise Forbidden(f"this needs a token of the role {role}; yours is a {self.role}'s")
        if model_id is not None and not self.may_use(model_id):
            raise Forbidden(f"your token is not for model {model_id!r}")


ANONYMOUS = Caller(None, "anonymous", "reader", ("*",))


def caller_of(row: TokenRow) -> Caller:
    """Return the caller that a token stands for."""
    role: Role = row.role  # type: ignore[assignment]  # a constraint says so
    return Caller(row.id, row.name, role, tuple(row.models))


def hash_of(secret: str) -> Digest:
    """Return what a token is found by. Pure."""
    return digest_of(secret.encode("utf-8", "surrogatepass"))


def find_caller(session: Session, secret: str) -> Caller:
    """Return the caller whose token has this secret.

    Raises:
        Unauthenticated: there is none, or it has expired or was revoked.
    """
    return find_token(session, hash_of(secret))[0]


def find_token(session: Session, secret_hash: Digest) -> tuple[Caller, datetime | None]:
    """Return the caller whose token's secret has this hash, and when the token ends.

    Raises:
        Unauthenticated: there is none, or it has expired or was revoked.
    """
    row = session.scalar(select(TokenRow).where(TokenRow.secret_hash == secret_hash))
    if row is None or not hmac.compare_digest(row.secret_hash, secret_hash):
        raise Unauthenticated("the token is not known")
    now = datetime.now(UTC)
    if row.revoked_at is not None:
        raise Unauthenticated("the token was revoked")
    if row.expires_at is not None and row.expires_at <= now:
        raise Unauthenticated("the token has expired")
    if row.last_used_at is None or now - row.last_used_at > _SEEN_EVERY:
        row.last_used_at = now
    return caller_of(row), row.expires_at
