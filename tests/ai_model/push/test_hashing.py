"""All digests of one pass, against plain hashlib."""

import os
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ai_model.progress import Meter
from ai_model.push import hashing
from ai_model.push.hashing import hash_file
from ai_model.retry import Interrupted
from ai_model_format.byte_range import ByteRange
from ai_model_format.chunks import plan_chunks
from ai_model_format.digest import digest_of


@st.composite
def files(draw):
    data = draw(st.binary(max_size=300))
    point = st.integers(0, len(data))
    spans = draw(st.lists(st.tuples(point, point).map(sorted), max_size=6))
    return data, [ByteRange(*span) for span in spans]


@settings(max_examples=60, deadline=None)
@given(files())
def test_digests_of_whole_chunks_and_spans(tmp_path_factory, file):
    data, borders = file
    path = tmp_path_factory.mktemp("hash") / "f"
    path.write_bytes(data)
    chunks = plan_chunks(len(data), borders)
    spans = sorted({border for border in borders if border.size})
    descriptor = os.open(path, os.O_RDONLY)
    piece_size, hashing.PIECE_SIZE = hashing.PIECE_SIZE, 7
    try:
        meter = Meter("hash", len(data), None)
        found = hash_file(descriptor, chunks, spans, meter, threading.Event())
    finally:
        hashing.PIECE_SIZE = piece_size
        os.close(descriptor)
    assert found.whole == digest_of(data)
    assert found.chunks == tuple(digest_of(data[c.start : c.end]) for c in chunks)
    assert found.spans == tuple(digest_of(data[s.start : s.end]) for s in spans)
    assert meter.done == len(data)


def test_a_file_that_is_too_short_or_a_stop_is_noticed(tmp_path):
    (tmp_path / "f").write_bytes(b"abc")
    descriptor = os.open(tmp_path / "f", os.O_RDONLY)
    stopped = threading.Event()
    meter = Meter("hash", 4, None)
    with pytest.raises(EOFError):
        hash_file(descriptor, [ByteRange(0, 4)], [], meter, stopped)
    stopped.set()
    with pytest.raises(Interrupted):
        hash_file(descriptor, [ByteRange(0, 3)], [], meter, stopped)
    os.close(descriptor)
