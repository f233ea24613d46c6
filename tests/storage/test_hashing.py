"""Verifying streams: whoever flips a byte is found, and where."""

import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ai_model_format.byte_range import ByteRange
from ai_model_format.digest import EMPTY_DIGEST, digest_of
from ai_model_format.manifest import Chunk
from storage.hashing import IntegrityError, digest_ranges, verify

DATA = random.Random(7).randbytes(10_000)
CHUNK_SIZES = (1, 4000, 2999, 3000)
EXTRA = (ByteRange(0, 10_000), ByteRange(500, 600), ByteRange(3990, 9990), ByteRange(550, 700))


def pieces_of(data: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


def chunks_of(data: bytes, sizes: tuple[int, ...]) -> list[Chunk]:
    chunks, start = [], 0
    for size in sizes:
        chunks.append(Chunk(digest_of(data[start : start + size]), size))
        start += size
    return chunks


def check(data: bytes, piece_size: int = 1000) -> None:
    """Verify ``data`` as if it were ``DATA``."""
    verify(
        pieces_of(data, piece_size),
        size=len(DATA),
        digest=digest_of(DATA),
        chunks=chunks_of(DATA, CHUNK_SIZES),
        extra=[(span, digest_of(DATA[span.start : span.end])) for span in EXTRA],
    )


@pytest.mark.parametrize("piece_size", [1, 7, 999, 4000, 4001, 10_000, 20_000])
def test_right_bytes_pass_however_they_are_cut(piece_size: int) -> None:
    check(DATA, piece_size)


@pytest.mark.parametrize(
    ("at", "index", "span"),
    [
        (0, 0, (0, 1)),
        (1, 1, (1, 4001)),
        (4000, 1, (1, 4001)),
        (4001, 2, (4001, 7000)),
        (9999, 3, (7000, 10_000)),
    ],
)
def test_a_flipped_byte_names_its_chunk(at: int, index: int, span: tuple[int, int]) -> None:
    flipped = bytearray(DATA)
    flipped[at] ^= 1
    with pytest.raises(IntegrityError) as caught:
        verify(
            pieces_of(bytes(flipped), 1000),
            size=len(DATA),
            digest=digest_of(DATA),
            chunks=chunks_of(DATA, CHUNK_SIZES),
        )
    error = caught.value
    assert (error.kind, error.index, error.range) == ("chunk", index, ByteRange(*span))
    assert error.expected == digest_of(DATA[slice(*span)])
    assert error.actual == digest_of(flipped[slice(*span)])
    assert f"chunk {index} (bytes {span[0]} to {span[1]})" in str(error)


def test_without_chunks_the_object_is_named() -> None:
    with pytest.raises(IntegrityError) as caught:
        verify([b"x" + DATA[1:]], size=len(DATA), digest=digest_of(DATA))
    assert (caught.value.kind, caught.value.range) == ("object", ByteRange(0, 10_000))


def test_a_wrong_object_of_right_chunks() -> None:
    with pytest.raises(IntegrityError) as caught:
        verify(
            [DATA],
            size=len(DATA),
            digest=digest_of(b"other"),
            chunks=chunks_of(DATA, CHUNK_SIZES),
        )
    assert caught.value.kind == "object"


def test_two_claims_about_one_range() -> None:
    with pytest.raises(IntegrityError) as caught:
        verify(
            [DATA],
            size=len(DATA),
            digest=digest_of(DATA),
            chunks=[Chunk(digest_of(b"other"), len(DATA))],
        )
    assert (caught.value.kind, caught.value.index) == ("chunk", 0)


@pytest.mark.parametrize("index", range(len(EXTRA)))
def test_a_wrong_claim_about_a_range_is_named(index: int) -> None:
    claims = [(span, digest_of(DATA[span.start : span.end])) for span in EXTRA]
    claims[index] = (EXTRA[index], digest_of(b"other"))
    with pytest.raises(IntegrityError) as caught:
        verify([DATA], size=len(DATA), digest=digest_of(DATA), extra=claims)
    assert (caught.value.kind, caught.value.index) == ("range", index)


@pytest.mark.parametrize("data", [DATA[:-1], DATA[:1], b"", DATA + b"x"])
def test_too_few_or_too_many_bytes(data: bytes) -> None:
    with pytest.raises(IntegrityError) as caught:
        check(data)
    assert caught.value.actual == ""


def test_progress_counts_every_byte() -> None:
    seen: list[int] = []
    verify(pieces_of(DATA, 999), size=len(DATA), digest=digest_of(DATA), progress=seen.append)
    assert sum(seen) == len(DATA)


def test_an_error_of_the_stream_comes_through() -> None:
    def broken() -> Iterator[bytes]:
        yield DATA[:5000]
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        verify(broken(), size=len(DATA), digest=digest_of(DATA))


def test_reading_stops_at_the_first_wrong_chunk() -> None:
    taken: list[int] = []

    def endless() -> Iterator[bytes]:
        for number in range(1_000_000):
            taken.append(number)
            yield b"x" * 1000

    with pytest.raises(IntegrityError) as caught:
        verify(
            endless(),
            size=1_000_000_000,
            digest=digest_of(b"x"),
            chunks=[Chunk(digest_of(b"wrong"), 1000), Chunk(digest_of(b"x"), 999_999_000)],
        )
    assert (caught.value.kind, caught.value.index) == ("chunk", 0)
    assert len(taken) < 100_000


def test_an_empty_object() -> None:
    verify([], size=0, digest=EMPTY_DIGEST)
    with pytest.raises(IntegrityError):
        verify([], size=0, digest=digest_of(b"x"))


SPANS = st.tuples(st.integers(0, 300), st.integers(0, 300)).map(
    lambda ends: ByteRange(*sorted(ends))
)


@given(
    data=st.binary(min_size=300, max_size=400),
    spans=st.lists(SPANS, max_size=12),
    piece_size=st.integers(1, 500),
)
def test_digests_of_any_ranges(data: bytes, spans: list[ByteRange], piece_size: int) -> None:
    expected = [digest_of(data[span.start : span.end]) for span in spans]
    assert digest_ranges(pieces_of(data, piece_size), spans) == expected


def test_digests_of_ranges_past_the_end() -> None:
    with pytest.raises(ValueError, match="before byte 11"):
        digest_ranges([b"0123456789"], [ByteRange(0, 3), ByteRange(5, 11)])
