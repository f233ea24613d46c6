"""HTTP bodies refuse JSON that cannot be kept and given back."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ai_model_format import wire
from ai_model_format.wire.base import MAX_JSON_DEPTH, check_json

json_values = some.recursive(
    some.none() | some.booleans() | some.integers(-(2**63), 2**63) | some.floats(
        allow_nan=False, allow_infinity=False
    ) | some.text("ab é✓\n"),
    lambda inner: some.lists(inner) | some.dictionaries(some.text("ab"), inner),
)  # fmt: skip


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth - 1):
        value = [value]
    return value


@given(json_values)
def test_json_comes_back_as_it_is(value: Any) -> None:
    assert check_json(value) is value


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (math.nan, "NaN"),
        ({"a": [math.inf]}, "infinity"),
        ("a\0", "NUL"),
        ({"a\0": 1}, "NUL"),
        ("\ud800", "Unicode"),
        ({"\udfff": 1}, "Unicode"),
        (2**63 + 1, "64 bits"),
        (nested(MAX_JSON_DEPTH + 1), "deeper"),
        (nested(100_000), "deeper"),
    ],
    ids=["nan", "inf", "nul", "nul-key", "surrogate", "surrogate-key", "integer", "deep", "bomb"],
)
def test_what_json_cannot_keep(value: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check_json(value)


def test_the_deepest_json_passes() -> None:
    check_json(nested(MAX_JSON_DEPTH))


def test_requests_forbid_what_they_do_not_know() -> None:
    with pytest.raises(ValueError, match="metricz"):
        wire.Metadata.model_validate({"metricz": {}})
