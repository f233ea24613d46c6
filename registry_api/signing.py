"""URLs of our own that anybody may use until they expire, for a store without such URLs.

The key lies in Postgres, so that every API process of a registry honours what another signed.
"""

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass, field

from sqlalchemy import Engine, select
from sqlalchemy.dialects.postgresql import insert

from registry_api.db.session import transaction
from registry_api.db.tables import SecretRow
from registry_api.errors import Forbidden

_KEY_NAME = "url_signing"


@dataclass(frozen=True, slots=True)
class UrlSigner:
    """Signs a method, a path and a time."""

    key: bytes = field(repr=False)

    def sign(self, method: str, path: str, *, expires_at: int) -> str:
        """Return ``path`` with a query that proves it; ``expires_at`` in seconds since 1970."""
        signature = self._signature(method, path, expires_at)
        return f"{path}?expires={expires_at}&signature={signature}"

    def check(self, method: str, path: str, *, expires: int, signature: str) -> None:
        """Check the query of a signed URL.

        Raises:
            Forbidden: it was signed for something else, not by us, or has expired.
        """
        expected = self._signature(method, path, expires)
        if not hmac.compare_digest(expected.encode(), signature.encode()):
            raise Forbidden("the URL's signature does not fit; ask for a new URL")
        if expires < time.time():
            raise Forbidden("the URL has expired; ask for a new one")

    def derive(self, *words: str) -> bytes:
        """Return 64 bytes that only a holder of the key can make from these words."""
        return hmac.new(self.key, "\0".join(words).encode(), hashlib.sha512).digest()

    def _signature(self, method: str, path: str, expires_at: int) -> str:
        message = f"{method}\n{path}\n{expires_at}".encode()
        return hmac.new(self.key, message, hashlib.sha256).hexdigest()


def load_signer(engine: Engine) -> UrlSigner:
    """Return the signer that all processes on this database share, making its key once."""
    with transaction(engine) as session:
        session.execute(
            insert(SecretRow)
            .values(name=_KEY_NAME, value=secrets.token_bytes(32))
            .on_conflict_do_nothing()
        )
        key = session.scalar(select(SecretRow.value).where(SecretRow.name == _KEY_NAME))
    assert key is not None
    return UrlSigner(key)
