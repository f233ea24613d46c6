"""Laws of splits: they always sum to 100%, and moving one version keeps the others' proportions."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ai_model_format.traffic import (
    WHOLE,
    InvalidShare,
    InvalidSplit,
    apportion,
    check_split,
    format_share,
    format_split,
    largest_gain,
    move,
    normalise,
    parse_share,
    stable_version,
)

VERSIONS = st.sampled_from(["v1", "v2", "v2.1", "v3", "v4", "v5"])
WEIGHTS = st.dictionaries(VERSIONS, st.integers(1, 10**9), min_size=1)
SPLITS = WEIGHTS.map(normalise)


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("5%", 500),
        ("5", 500),
        (" 5 % ", 500),
        ("0", 0),
        ("100", 10_000),
        ("100%", 10_000),
        ("12.5", 1250),
        ("12.50%", 1250),
        ("0.05%", 5),
        ("0.5%", 50),
        ("33.33", 3333),
        ("1", 100),
        ("007", 700),
    ],
)
def test_shares_as_people_type_them(text, share):
    assert parse_share(text) == share


@pytest.mark.parametrize(
    "text",
    ["0.05", "0.5", "1.0", "-5", "-5%", "101", "100.01%", "33.333%", "", "%", "five", "5%%", "1e1",
     "5,5", "+5", "\u0665", "nan", "1000", "5\n6"],
)  # fmt: skip
def test_refused_shares(text):
    with pytest.raises(InvalidShare):
        parse_share(text)


def test_an_ambiguous_fraction_says_what_to_write():
    with pytest.raises(InvalidShare, match="such as 5%"):
        parse_share("0.05")


@given(st.integers(0, WHOLE))
def test_formatting_a_share_is_undone_by_parsing(share):
    assert parse_share(format_share(share)) == share


@given(st.text(max_size=12))
def test_any_text_is_a_share_or_refused(text):
    with contextlib.suppress(InvalidShare):
        assert 0 <= parse_share(text) <= WHOLE


@given(WEIGHTS)
def test_normalised_weights_are_a_split(weights):
    check_split(normalise(weights))


@given(WEIGHTS, st.integers(0, WHOLE))
def test_each_part_is_within_one_of_its_exact_proportion(weights, total):
    parts = apportion(weights, total)
    whole = sum(weights.values())
    assert sum(parts.values()) == total
    for name, weight in weights.items():
        assert abs(parts.get(name, 0) * whole - total * weight) < whole


@given(SPLITS, VERSIONS, st.integers(0, WHOLE))
def test_a_move_gives_exactly_what_was_asked_and_sums_to_whole(split, version, share):
    others = set(split) - {version}
    if share < WHOLE and not others:
        with pytest.raises(InvalidSplit):
            move(split, {version: share})
        return
    moved = move(split, {version: share})
    check_split(moved)
    assert moved.get(version, 0) == share
    assert set(moved) <= others | {version}


@given(SPLITS, st.lists(st.tuples(VERSIONS, st.integers(0, WHOLE)), max_size=30))
def test_the_sum_holds_over_any_series_of_moves(split, moves):
    for version, share in moves:
        if share == WHOLE or set(split) - {version}:
            split = check_split(move(split, {version: share}))


@given(SPLITS)
def test_moving_to_the_same_shares_changes_nothing(split):
    assert move(split, split) == split


def test_others_keep_their_proportions():
    assert move({"a": 6000, "b": 3000, "c": 1000}, {"c": 4000}) == {"a": 4000, "b": 2000, "c": 4000}


def test_zero_leaves_the_split():
    assert move({"a": 9500, "b": 500}, {"b": 0}) == {"a": 10_000}


def test_the_first_split_has_to_be_whole():
    assert move({}, {"v1": WHOLE}) == {"v1": WHOLE}
    with pytest.raises(InvalidSplit, match="remaining 95%"):
        move({}, {"v1": 500})


def test_more_than_whole_is_refused():
    with pytest.raises(InvalidSplit, match="110%"):
        move({"a": WHOLE}, {"b": 6000, "c": 5000})


@pytest.mark.parametrize("split", [{}, {"a": 9999}, {"a": 10_000, "b": 0}, {"a": 10_001, "b": -1}])
def test_what_is_no_split(split):
    with pytest.raises(InvalidSplit):
        check_split(split)


def test_a_split_in_words():
    assert format_split({"v2.4": 500, "v2.3": 9500}) == "v2.3 95%, v2.4 5%"


def test_the_stable_version_has_the_largest_share():
    assert stable_version({"b": 5000, "a": 5000}) == "a"
    assert stable_version({"b": 5001, "a": 4999}) == "b"


def test_the_largest_gain():
    assert largest_gain({"a": 9500, "b": 500}, {"a": 4000, "b": 6000}) == ("b", 5500)
    assert largest_gain({"a": WHOLE}, {"a": WHOLE}) == ("a", 0)
