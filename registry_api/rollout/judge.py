"""Whether a version does well enough for more traffic. Pure.

No traffic is neither good nor bad: a step waits for enough of it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Decision = Literal["wait", "advance", "roll_back"]


@dataclass(frozen=True, slots=True)
class Counted:
    """Requests of a version, and how long they took.

    Attributes:
        requests: answered or failed.
        errors: of them.
        latency_ms: how many took up to so many milliseconds, by upper bound.
    """

    requests: int = 0
    errors: int = 0
    latency_ms: Mapping[int, int] = field(default_factory=dict)

    @property
    def error_rate(self) -> float | None:
        """Errors per request; ``None`` without requests."""
        return self.errors / self.requests if self.requests else None

    @property
    def p99_ms(self) -> float | None:
        """Upper bound of the bucket in which the 99th percentile lies; ``None`` without any."""
        total = sum(self.latency_ms.values())
        below = 0
        for bound in sorted(self.latency_ms):
            below += self.latency_ms[bound]
            if total and below * 100 >= total * 99:
                return float(bound)
        return None

    def since(self, before: "Counted") -> "Counted":
        """Return what was counted since then."""
        buckets = {
            bound: max(count - before.latency_ms.get(bound, 0), 0)
            for bound, count in self.latency_ms.items()
        }
        return Counted(
            max(self.requests - before.requests, 0), max(self.errors - before.errors, 0), buckets
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        buckets = {str(bound): count for bound, count in self.latency_ms.items()}
        return {"requests": self.requests, "errors": self.errors, "latency_ms": buckets}


@dataclass(frozen=True, slots=True)
class Rules:
    """What a step is held to."""

    interval_s: float
    max_error_rate: float
    max_p99_ms: float | None
    min_requests: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do about a step, and why."""

    decision: Decision
    why: str


def counted_from_json(document: Mapping[str, Any]) -> Counted:
    """Read what ``Counted.to_json`` wrote."""
    buckets = {int(bound): int(count) for bound, count in document["latency_ms"].items()}
    return Counted(document["requests"], document["errors"], buckets)


def total(parts: Iterable[Counted]) -> Counted:
    """Add up what several gateways counted."""
    requests = errors = 0
    buckets: dict[int, int] = {}
    for part in parts:
        requests += part.requests
        errors += part.errors
        for bound, count in part.latency_ms.items():
            buckets[bound] = buckets.get(bound, 0) + count
    return Counted(requests, errors, buckets)


def judge(rules: Rules, counted: Counted, *, elapsed_s: float) -> Verdict:
    """Judge a step by what was counted in it.

    A breach is acted on as soon as there are enough requests to tell; success
    only when the interval is over.
    """
    if counted.requests < rules.min_requests:
        return Verdict(
            "wait",
            f"{counted.requests} of at least {rules.min_requests} requests:"
            " too few to tell good from bad",
        )
    if breach := _breach(rules, counted):
        return Verdict("roll_back", breach)
    if rules.max_p99_ms is not None and counted.p99_ms is None:
        return Verdict("wait", "no latency was measured yet")
    if elapsed_s < rules.interval_s:
        return Verdict("wait", f"{elapsed_s:.0f} of {rules.interval_s:g} s, good so far")
    return Verdict("advance", f"good for {rules.interval_s:g} s: {_in_words(counted)}")


def _breach(rules: Rules, counted: Counted) -> str | None:
    rate, p99_ms = counted.error_rate, counted.p99_ms
    if rate is not None and rate > rules.max_error_rate:
        return (
            f"{counted.errors} of {counted.requests} requests failed ({rate:.2%}),"
            f" over the {rules.max_error_rate:.2%} allowed"
        )
    if rules.max_p99_ms is not None and p99_ms is not None and p99_ms > rules.max_p99_ms:
        return (
            f"the 99th percentile of latency is {p99_ms:g} ms,"
            f" over the {rules.max_p99_ms:g} ms allowed"
        )
    return None


def _in_words(counted: Counted) -> str:
    p99 = f", 99th percentile {counted.p99_ms:g} ms" if counted.p99_ms is not None else ""
    return f"{counted.errors} of {counted.requests} requests failed{p99}"
