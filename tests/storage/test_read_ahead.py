"""Reading ahead gives the same bytes in the same order, holds little, and tells of errors."""

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from storage.interface import ObjectNotFound
from storage.read_ahead import read_ahead

DATA = bytes(range(256)) * 40


def read(start: int, end: int) -> Iterator[bytes]:
    for at in range(start, end, 7):
        yield DATA[at : min(at + 7, end)]


@settings(deadline=None)
@given(
    some.lists(some.tuples(some.integers(0, 5000), some.integers(0, 5000)), max_size=30),
    some.integers(1, 6),
    some.integers(1, 3000),
)
def test_bytes_come_in_order(ranges: list[tuple[int, int]], ahead: int, span_size: int) -> None:
    sources = [(read, start, start + size) for start, size in ranges]
    got = b"".join(read_ahead(sources, ahead=ahead, span_size=span_size))
    assert got == b"".join(DATA[start : start + size] for start, size in ranges)


def test_few_spans_are_held_however_slow_the_taker() -> None:
    begun: list[int] = []

    def note(start: int, end: int) -> Iterator[bytes]:
        begun.append(start)
        yield bytes(end - start)

    pieces = read_ahead([(note, 0, 1000)], ahead=3, span_size=10)
    for taken in range(1, 20):
        next(pieces)
        assert len(begun) <= taken + 4
    pieces.close()
    assert len(begun) < 30


def test_several_are_read_at_once() -> None:
    together = threading.Barrier(3, timeout=30)

    def meet(start: int, end: int) -> Iterator[bytes]:
        together.wait()
        yield bytes(end - start)

    assert len(b"".join(read_ahead([(meet, 0, 30)], ahead=3, span_size=10))) == 30


def test_an_error_rises_where_the_bytes_would_have_come() -> None:
    def gone(start: int, end: int) -> Iterator[bytes]:
        raise ObjectNotFound("gone")

    pieces = read_ahead([(read, 0, 10), (gone, 0, 10)], span_size=10)
    assert next(pieces) == DATA[:7]
    assert next(pieces) == DATA[7:10]
    with pytest.raises(ObjectNotFound):
        next(pieces)
