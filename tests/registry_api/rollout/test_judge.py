"""Verdicts: a breach at once, success after the interval, and nothing without traffic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry_api.rollout.judge import Counted, Rules, counted_from_json, judge, total

RULES = Rules(interval_s=600, max_error_rate=0.01, max_p99_ms=300, min_requests=100)
GOOD = {10: 99, 400: 1}
COUNTED = st.builds(
    Counted,
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.dictionaries(st.integers(1, 10**5), st.integers(0, 10**6), max_size=5),
)


@pytest.mark.parametrize(
    ("counted", "elapsed_s", "decision"),
    [
        (Counted(), 10**6, "wait"),
        (Counted(99, 99, {10: 99}), 10**6, "wait"),
        (Counted(100, 2, GOOD), 1, "roll_back"),
        (Counted(100, 1, GOOD), 1, "wait"),
        (Counted(100, 1, GOOD), 600, "advance"),
        (Counted(100, 0, {10: 98, 400: 2}), 1, "roll_back"),
        (Counted(100, 0, {}), 600, "wait"),
    ],
)
def test_verdicts(counted: Counted, elapsed_s: float, decision: str) -> None:
    verdict = judge(RULES, counted, elapsed_s=elapsed_s)
    assert verdict.decision == decision, verdict.why


def test_without_a_bar_for_latency_none_is_needed() -> None:
    rules = Rules(interval_s=1, max_error_rate=0, max_p99_ms=None, min_requests=1)
    assert judge(rules, Counted(1, 0), elapsed_s=1).decision == "advance"


@given(COUNTED, COUNTED)
def test_what_was_added_is_what_is_new(before: Counted, gained: Counted) -> None:
    after = total([before, gained])
    new = after.since(before)
    assert (new.requests, new.errors) == (gained.requests, gained.errors)
    assert {k: v for k, v in new.latency_ms.items() if v} == {
        k: v for k, v in gained.latency_ms.items() if v
    }


@given(COUNTED)
def test_json_keeps_everything(counted: Counted) -> None:
    assert counted_from_json(counted.to_json()) == counted
