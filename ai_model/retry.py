"""Trying again what may work the next time: jittered exponential backoff, ``Retry-After``."""

import email.utils
import math
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import httpx

from ai_model.errors import NetworkError

T = TypeVar("T")
RETRIED_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
THROTTLED_STATUSES = frozenset({429, 503})


class TryAgain(Exception):
    """An answer that is worth another try.

    Attributes:
        reason: the end of a sentence, such as ``answered 503``.
        retry_after_s: how long the server asks to wait; ``None`` where it does not say.
        final: raised in place of a ``NetworkError`` when no try is left.
        throttled: the store works, but has too many requests; worth more patience.
    """

    def __init__(
        self,
        reason: str,
        *,
        retry_after_s: float | None = None,
        final: Exception | None = None,
        throttled: bool = False,
    ) -> None:
        self.reason = reason
        self.retry_after_s = retry_after_s
        self.final = final
        self.throttled = throttled
        super().__init__(reason)


class Interrupted(Exception):
    """Another thread of the same transfer failed, so this one stops."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how patiently to try.

    Attributes:
        tries: in all, the first included; counted anew whenever bytes arrived.
        throttled_tries: the same while a store says that it has too many requests, as it does
            when many machines start at once: about five minutes of pauses.
        base_s: longest first pause; it doubles from try to try.
        cap_s: longest pause of our own choosing.
        patience_s: longest pause that a server may ask for.
    """

    tries: int = 6
    throttled_tries: int = 30
    base_s: float = 0.4
    cap_s: float = 15.0
    patience_s: float = 120.0

    def pause_s(self, failures: int, retry_after_s: float | None, *, jitter: float) -> float:
        """Return how long to wait after so many failures in a row (at least 1). Pure.

        Args:
            failures: so far, of the same kind.
            retry_after_s: what the server asked for, kept to and spread a little.
            jitter: a random number from 0 to 1.
        """
        doubled: float = self.base_s * 2.0 ** min(failures - 1, 30)
        own = min(self.cap_s, doubled) * (0.5 + jitter / 2)
        return own if retry_after_s is None else retry_after_s + min(own, 1.0) * jitter


class Retrier:
    """Runs calls under a policy until they succeed or patience ends."""

    def __init__(
        self,
        policy: RetryPolicy,
        *,
        stopped: threading.Event | None = None,
        note: Callable[[str], None] | None = None,
    ) -> None:
        self._policy = policy
        self._stopped = stopped or threading.Event()
        self._note = note
        self._noted_until = 0.0

    def call(self, attempt: Callable[[], T], *, what: str, on_failure: Callable[[], bool]) -> T:
        """Return what ``attempt`` returns, trying again after ``TryAgain`` and network errors.

        Args:
            attempt: one try.
            what: is being done, for the sentence of the error.
            on_failure: says whether the last try got further, which renews the patience.

        Raises:
            NetworkError: no try is left.
            Interrupted: ``stopped`` was set meanwhile.
        """
        # Counted apart: a store that had us wait ten times and then breaks off once failed once.
        failures = {True: 0, False: 0}
        while True:
            try:
                return attempt()
            except (TryAgain, httpx.TransportError) as error:
                if on_failure():
                    failures = {True: 0, False: 0}
                throttled = isinstance(error, TryAgain) and error.throttled
                failures[throttled] += 1
                self._wait(error, failures[throttled], what, throttled=throttled)

    def _wait(self, error: Exception, failures: int, what: str, *, throttled: bool) -> None:
        asked = error.retry_after_s if isinstance(error, TryAgain) else None
        tries = self._policy.throttled_tries if throttled else self._policy.tries
        if failures >= max(tries, self._policy.tries) or (asked or 0) > self._policy.patience_s:
            raise _final(error, what, failures) from error
        pause = self._policy.pause_s(failures, asked, jitter=random.random())  # noqa: S311
        self._say(f"{what}: {_reason(error)}; trying again in {pause:.1f} s", pause)
        if self._stopped.wait(pause):
            raise Interrupted from error

    def _say(self, sentence: str, pause_s: float) -> None:
        """Pass on a note, but not those of all threads that wait for the same reason."""
        now = time.monotonic()
        if self._note is not None and now >= self._noted_until:
            self._noted_until = now + pause_s
            self._note(sentence)


def retry_after_s(response: httpx.Response, *, now: float | None = None) -> float | None:
    """Read ``Retry-After``, seconds or a date; ``None`` where it is missing or nonsense."""
    text = response.headers.get("retry-after", "")
    try:
        seconds = float(text)
    except ValueError:
        parsed = email.utils.parsedate_to_datetime(text) if _is_date(text) else None
        seconds = parsed.timestamp() - (now or time.time()) if parsed else math.nan
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _is_date(text: str) -> bool:
    return email.utils.parsedate(text) is not None


def _reason(error: Exception) -> str:
    return error.reason if isinstance(error, TryAgain) else str(error)


def _final(error: Exception, what: str, tries: int) -> Exception:
    if isinstance(error, TryAgain) and error.final is not None:
        return error.final
    return NetworkError(
        f"{what} failed {tries} time{'s' if tries > 1 else ''}: {_reason(error)}.",
        way_out="Check the network and the endpoint, then try again.",
    )
