"""Remember for a few seconds whose token a secret is, so that most requests need not look.

A token revoked by this process is forgotten at once, by another process within the cache's
life. Only valid tokens are kept, by the hash of their secret, a bounded number of them.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from ai_model_format.digest import Digest
from registry_api.access import Caller

MAX_TOKENS = 10_000


@dataclass(frozen=True, slots=True)
class _Known:
    """A caller, until when to believe it (of the monotonic clock), and when the token ends."""

    caller: Caller
    until_s: float
    expires_at: datetime | None


class TokenCache:
    """Callers by the hash of their secret. Threads may share it.

    Args:
        life_s: seconds to remember a token; 0 remembers none.
    """

    def __init__(self, life_s: float) -> None:
        self._life_s = life_s
        self._known: dict[Digest, _Known] = {}
        self._lock = threading.Lock()
        self._forgotten = 0

    def get(self, secret_hash: Digest) -> Caller | None:
        """Return the caller, ``None`` where Postgres has to be asked."""
        known = self._known.get(secret_hash)
        if known is None or time.monotonic() >= known.until_s:
            return None
        if known.expires_at is not None and datetime.now(UTC) >= known.expires_at:
            return None
        return known.caller

    def fill(
        self, secret_hash: Digest, look: Callable[[], tuple[Caller, datetime | None]]
    ) -> Caller:
        """Ask ``look`` for the caller and when the token ends, and remember both.

        What was asked before a token was forgotten, and is answered after, is not kept.
        """
        forgotten = self._forgotten
        asked_s = time.monotonic()
        caller, expires_at = look()
        with self._lock:
            if forgotten == self._forgotten and self._life_s:
                if len(self._known) >= MAX_TOKENS:
                    self._known.clear()
                self._known[secret_hash] = _Known(caller, asked_s + self._life_s, expires_at)
        return caller

    def forget_all(self) -> None:
        """Believe no token any more; called when one was revoked."""
        with self._lock:
            self._forgotten += 1
            self._known.clear()
