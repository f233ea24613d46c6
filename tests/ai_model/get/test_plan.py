"""Laws of planning a get."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ai_model.get.outputs import Output
from ai_model.get.plan import (
    LARGEST_REQUEST,
    LAST_REQUEST,
    MAX_GAP,
    SMALLEST_REQUEST,
    LayoutDoesNotFit,
    Run,
    pieces_of,
    plan_requests,
    runs_of,
)
from ai_model_format.byte_range import ByteRange
from ai_model_format.digest import digest_of
from ai_model_format.formats.interface import Literal, SourceRange
from ai_model_format.manifest import Chunk, File


def make_file(path: str, sizes: list[int]) -> File:
    chunks = tuple(
        Chunk(digest_of(f"{path}{n if n % 5 else 0}-{size}".encode()), size)
        for n, size in enumerate(sizes)
    )
    return File(path, sum(sizes), digest_of(path.encode()), "x/x", "opaque", chunks)


@st.composite
def files(draw):
    size = st.one_of(st.integers(1, 2000), st.integers(1, 3_000_000))
    sizes = draw(st.lists(st.lists(size, min_size=1, max_size=30), min_size=1, max_size=3))
    return [make_file(f"f{n}", one) for n, one in enumerate(sizes)]


@st.composite
def plans(draw):
    """Outputs with some of the chunks of files, and a layout over one or two objects."""
    outputs, layout = [], {}
    for file in draw(files()):
        starts = file.chunk_starts
        taken = draw(st.sets(st.integers(0, len(file.chunks) - 1)))
        segments = [SourceRange(ByteRange(starts[n], starts[n + 1])) for n in sorted(taken)]
        outputs.append(Output(file.path, file, (Literal(b"head"), *segments), complete=False))
        cut = draw(st.sampled_from([0, len(file.chunks) // 2]))
        runs = [Run(0, f"obj-{file.path}-a", 100)]
        if cut:
            runs.append(Run(starts[cut], f"obj-{file.path}-b", 7))
        layout[file.path] = runs
    return outputs, layout


@given(plans())
def test_pieces_go_to_every_place_that_wants_them(plan):
    outputs, _ = plan
    wanted = {
        (number, offset, output.file.chunks[index].digest)
        for number, output in enumerate(outputs)
        for offset, index in output.chunks()
    }
    pieces = pieces_of(outputs)
    assert wanted == {(p.output, p.offset, piece.digest) for piece in pieces for p in piece.places}
    assert len({piece.digest for piece in pieces}) == len(pieces)


@given(plans(), st.integers(1, 16))
def test_requests_bring_every_piece_once_from_where_it_lies(plan, connections):
    outputs, layout = plan
    pieces = pieces_of(outputs)
    requests = plan_requests(pieces, layout, connections=connections)
    brought = [piece.digest for request in requests for _, piece in request.pieces]
    assert sorted(brought) == sorted(piece.digest for piece in pieces)
    for request in requests:
        for offset, piece in request.pieces:
            run = [r for r in layout[piece.file.path] if r.start <= piece.start][-1]
            assert (request.object, offset) == (run.object, run.offset + piece.start - run.start)


@given(plans(), st.integers(1, 16))
def test_requests_cost_little_more_than_the_pieces(plan, connections):
    outputs, layout = plan
    pieces = pieces_of(outputs)
    fetched = 0
    for request in plan_requests(pieces, layout, connections=connections):
        first, last = request.pieces[0], request.pieces[-1]
        size = last[0] + last[1].size - first[0]
        assert 0 < size <= LARGEST_REQUEST
        fetched += size
    written = sum(piece.size * len(piece.places) for piece in pieces)
    assert sum(piece.size for piece in pieces) <= fetched <= written * 1.01 + 16 * 1024


def test_neighbours_share_a_request():
    file = make_file("f", [1000] * 100)
    output = Output("f", file, (SourceRange(ByteRange(0, file.size)),), complete=True)
    requests = plan_requests(pieces_of([output]), {"f": [Run(0, "o", 0)]}, connections=8)
    assert len(requests) == 1


def sizes_of_requests(file: File, *, connections: int) -> list[int]:
    output = Output("f", file, (SourceRange(ByteRange(0, file.size)),), complete=True)
    layout = {"f": [Run(0, "o", 0)]}
    requests = plan_requests(pieces_of([output]), layout, connections=connections)
    return [sum(piece.size for _, piece in request.pieces) for request in requests]


def test_requests_are_large_first_and_small_last():
    mib = 1024 * 1024
    chunks = tuple(Chunk(digest_of(b"%d" % n), 4 * mib) for n in range(512))
    file = File("f", 2048 * mib, digest_of(b"f"), "x/x", "opaque", chunks)
    sizes = sizes_of_requests(file, connections=4)
    assert sizes[:24] == [LARGEST_REQUEST] * 24
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-4:-1] == [LAST_REQUEST] * 3


def test_a_small_file_is_shared_among_the_connections():
    file = make_file("f", [200_000 + n for n in range(320)])
    sizes = sizes_of_requests(file, connections=4)
    assert len(sizes) >= 8
    assert max(sizes) <= file.size / 8
    assert min(sizes[:-1]) > SMALLEST_REQUEST - max(chunk.size for chunk in file.chunks)


def test_wide_gaps_are_not_fetched():
    file = make_file("f", [5_000_000, MAX_GAP + 1, 5_000_001])
    ends = file.chunk_starts
    parts = (SourceRange(ByteRange(0, ends[1])), SourceRange(ByteRange(ends[2], ends[3])))
    output = Output("f", file, parts, complete=False)
    requests = plan_requests(pieces_of([output]), {"f": [Run(0, "o", 0)]}, connections=1)
    assert len(requests) == 2


@pytest.mark.parametrize(
    "runs",
    [[], [("o", 9, 0, 9)], [("o", 5, 0, 10)], [("o", 99, -1, 10)], [("o", 99, 0, 0)]],
)
def test_layouts_that_do_not_fit_are_refused(runs):
    with pytest.raises(LayoutDoesNotFit):
        runs_of(make_file("f", [4, 6]), runs)
