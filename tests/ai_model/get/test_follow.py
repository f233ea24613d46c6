"""A file's digest is right in whatever order it is filled."""

import os
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ai_model.errors import AiModelError
from ai_model.get.follow import BUFFER_SIZE, Follower
from ai_model.get.targets import FileTarget, MemoryTarget

ranges = st.lists(st.integers(1, 3 * BUFFER_SIZE // 2), max_size=6)


@given(ranges, st.randoms(use_true_random=False), st.integers(0, 6))
def test_ranges_may_arrive_in_any_order_and_some_not_be_told(sizes, random, untold):
    content = random.randbytes(sum(sizes))
    target = MemoryTarget(len(content))
    follower = Follower(target.read_into, len(content))
    starts = [sum(sizes[:n]) for n in range(len(sizes))]
    spans = list(zip(starts, sizes, strict=True))
    random.shuffle(spans)
    for number, (start, size) in enumerate(spans):
        target.write(start, memoryview(content[start : start + size]))
        if number >= untold:
            follower.settle(start, size)
    assert follower.finish() == f"sha256:{sha256(content).hexdigest()}"


def test_what_is_not_final_is_not_read():
    seen: list[int] = []
    content = os.urandom(3 * BUFFER_SIZE)

    def read_into(offset: int, buffer: memoryview) -> bool:
        seen.append(offset + len(buffer))
        buffer[:] = content[offset : offset + len(buffer)]
        return True

    follower = Follower(read_into, len(content))
    follower.settle(2 * BUFFER_SIZE, BUFFER_SIZE)
    follower.settle(0, 100)
    follower.give_up()
    assert max(seen, default=0) <= 100


def test_a_file_that_became_shorter_is_an_error(tmp_path):
    file = FileTarget(tmp_path / "short", writable=True)
    file.resize(100)
    file.follow()
    os.truncate(tmp_path / "short", 50)
    with pytest.raises(AiModelError, match="shorter"):
        file.digest()
    file.close()


def test_a_file_is_closed_while_it_is_followed(tmp_path):
    file = FileTarget(tmp_path / "left", writable=True)
    file.resize(100)
    file.follow()
    file.settle(0, 10)
    file.close()
    file.close()
