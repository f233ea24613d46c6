"""Chunks tile a file and end where tensors do."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ai_model_format.byte_range import ByteRange
from ai_model_format.chunks import plan_chunks
from ai_model_format.manifest import MAX_CHUNK_SIZE

SIZE = 5 * MAX_CHUNK_SIZE + 7
places = some.integers(0, SIZE)
borders = some.lists(some.tuples(places, places).map(lambda pair: ByteRange(*sorted(pair))))


@given(borders)
def test_chunks_tile_the_file_and_every_border(wanted: list[ByteRange]) -> None:
    chunks = plan_chunks(SIZE, wanted)
    assert chunks[0].start == 0
    assert chunks[-1].end == SIZE
    assert all(a.end == b.start for a, b in pairwise(chunks))
    assert all(1 <= chunk.size <= MAX_CHUNK_SIZE for chunk in chunks)
    cuts = {0} | {chunk.end for chunk in chunks}
    assert {place for border in wanted for place in (border.start, border.end)} <= cuts


@given(borders, some.integers(0, SIZE - 2 * MAX_CHUNK_SIZE))
def test_equal_tensors_are_equal_chunks_wherever_they_stand(
    others: list[ByteRange], start: int
) -> None:
    tensor = ByteRange(start, start + 2 * MAX_CHUNK_SIZE)
    outside = [o for o in others if o.end <= tensor.start or o.start >= tensor.end]
    chunks = plan_chunks(SIZE, [*outside, tensor])
    inside = [chunk.start - start for chunk in chunks if chunk in tensor]
    assert inside == [0, MAX_CHUNK_SIZE]


def test_an_empty_file_has_no_chunks() -> None:
    assert plan_chunks(0, [ByteRange(0, 0)]) == []


def test_borders_outside_are_refused() -> None:
    with pytest.raises(ValueError, match="lie outside 10"):
        plan_chunks(10, [ByteRange(3, 11)])
