"""Pieces come out of an answer whole, wherever its bytes are cut."""

from hypothesis import given
from hypothesis import strategies as st

from ai_model.get.plan import Piece, Place
from ai_model.get.split import Splitter
from ai_model_format.digest import digest_of
from ai_model_format.manifest import File

FILE = File("f", 0, digest_of(b""), "x/x", "opaque", ())


@st.composite
def answers(draw):
    """An answer's bytes, its start, the pieces in it, and which of them it brings wrong."""
    start = draw(st.integers(0, 50))
    content, pieces, wrong = b"", [], set()
    for number, (gap, size) in enumerate(
        draw(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 40)), min_size=1, max_size=12))
    ):
        content += b"-" * gap
        data = draw(st.binary(min_size=size, max_size=size))
        follows = draw(st.booleans()) and pieces and len(pieces[-1][1].places) == 1
        before = pieces[-1][1] if pieces else None
        if follows and before:
            places = (Place(before.places[0].output, before.places[0].offset + before.size),)
        else:
            count = draw(st.integers(1, 3))
            places = tuple(Place(output, 1000 * number) for output in range(count))
        digest = digest_of(data)
        if draw(st.integers(0, 4)) == 0:
            wrong.add(number)
            digest = digest_of(data + b"else")
        pieces.append((start + len(content), Piece(digest, size, FILE, 0, places)))
        content += data
    return start, content + b"-" * draw(st.integers(0, 3)), pieces, wrong


@given(answers(), st.data())
def test_every_piece_goes_to_all_its_places_and_is_judged(answer, data):
    start, content, pieces, wrong = answer
    splitter = Splitter(pieces, start=start)
    written: dict[tuple[int, int], int] = {}
    ended = []
    at = 0
    while at < len(content):
        cut = data.draw(st.integers(1, 60))
        part = memoryview(content[at : at + cut])
        writes, done = splitter.take(part)
        for write in writes:
            for n, byte in enumerate(part[write.begin : write.end]):
                spot = (write.place.output, write.place.offset + n)
                assert spot not in written
                written[spot] = byte
        ended += done
        at += len(part)
    wanted = {
        (place.output, place.offset + n): content[offset - start + n]
        for offset, piece in pieces
        for place in piece.places
        for n in range(piece.size)
    }
    assert written == wanted
    assert [one.piece for one in ended] == [piece for _, piece in pieces]
    assert {n for n, one in enumerate(ended) if not one.good} == wrong


def test_neighbours_are_written_together():
    pieces = [
        (n * 10, Piece(digest_of(b"0123456789"), 10, FILE, n * 10, (Place(0, 500 + n * 10),)))
        for n in range(5)
    ]
    writes, ended = Splitter(pieces, start=0).take(memoryview(b"0123456789" * 5))
    assert [(write.place, write.begin, write.end) for write in writes] == [(Place(0, 500), 0, 50)]
    assert all(one.good for one in ended)
