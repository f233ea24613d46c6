"""Half-open ranges and HTTP's closed ones."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ai_model_format.byte_range import ByteRange, merge_ranges, parse_content_range

ranges = some.tuples(some.integers(0, 200), some.integers(0, 30)).map(
    lambda pair: ByteRange(pair[0], pair[0] + pair[1])
)


@pytest.mark.parametrize(("start", "end"), [(-1, 3), (4, 3)])
def test_what_is_no_range(start: int, end: int) -> None:
    with pytest.raises(ValueError, match="not a byte range"):
        ByteRange(start, end)


@given(ranges)
def test_a_header_says_the_range(wanted: ByteRange) -> None:
    if not wanted.size:
        with pytest.raises(ValueError, match="empty"):
            wanted.http_header()
        return
    span = wanted.http_header().removeprefix("bytes=")
    assert parse_content_range(f"bytes {span}/500") == (wanted, 500)
    assert parse_content_range(f"bytes {span}/*") == (wanted, None)


@pytest.mark.parametrize(
    "header",
    ["", "bytes */5", "bytes 1-/5", "bytes 0-1", "items 0-1/2", "bytes 5-3/9", "bytes \u0661-2/3"],
)
def test_other_headers_are_refused(header: str) -> None:
    with pytest.raises(ValueError, match="not a"):
        parse_content_range(header)


@given(some.lists(ranges), some.integers(0, 20))
def test_merged_ranges_cover_the_wanted_and_lie_apart(
    wanted: list[ByteRange], max_gap: int
) -> None:
    merged = merge_ranges(wanted, max_gap=max_gap)
    assert all(any(one in whole for whole in merged) for one in wanted)
    assert all(b.start - a.end > max_gap for a, b in pairwise(merged))
    covered = {byte for one in wanted for byte in range(one.start, one.end)}
    extra = sum(one.size for one in merged) - len(covered)
    assert 0 <= extra <= max_gap * max(0, len(wanted) - len(merged))


def test_a_negative_gap_is_refused() -> None:
    with pytest.raises(ValueError, match="max_gap is negative"):
        merge_ranges([], max_gap=-1)
