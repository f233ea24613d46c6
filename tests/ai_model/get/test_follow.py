"""A file's digest is right in whatever order it is filled."""

import os
import threading
import time
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ai_model.errors import AiModelError
from ai_model.get.follow import BUFFER_SIZE, Followers
from ai_model.get.targets import FileTarget, MemoryTarget

sizes = st.one_of(st.integers(1, 100), st.integers(1, 3 * BUFFER_SIZE // 2))
ranges = st.lists(sizes, max_size=4)


@settings(max_examples=40, deadline=None)
@given(st.lists(ranges, max_size=2), st.randoms(use_true_random=False), st.integers(0, 6))
def test_ranges_may_arrive_in_any_order_and_some_not_be_told(files, random, untold):
    contents = [os.urandom(sum(sizes)) for sizes in files]
    with Followers() as followers:
        targets = [MemoryTarget(len(content)) for content in contents]
        followed = [followers.add(target.read_into, len(target.data)) for target in targets]
        spans = [
            (number, sum(sizes[:n]), size)
            for number, sizes in enumerate(files)
            for n, size in enumerate(sizes)
        ]
        random.shuffle(spans)
        for told, (number, start, size) in enumerate(spans):
            targets[number].write(start, memoryview(contents[number][start : start + size]))
            if told >= untold:
                followed[number].settle(start, size)
        digests = [follower.finish() for follower in followed]
    assert digests == [f"sha256:{sha256(content).hexdigest()}" for content in contents]


def test_what_is_final_is_hashed_before_the_end_and_nothing_else():
    content = os.urandom(3 * BUFFER_SIZE)
    read = threading.Semaphore(0)
    seen: list[int] = []

    def read_into(offset: int, buffer: memoryview) -> bool:
        buffer[:] = content[offset : offset + len(buffer)]
        seen.append(offset + len(buffer))
        read.release()
        return True

    with Followers() as followers:
        follower = followers.add(read_into, len(content))
        follower.settle(2 * BUFFER_SIZE, BUFFER_SIZE)
        follower.settle(0, 100)
        assert read.acquire(timeout=30)
    assert seen == [100]


def test_a_file_that_became_shorter_is_an_error(tmp_path):
    file = FileTarget(tmp_path / "short", writable=True)
    file.resize(100)
    with Followers() as followers:
        file.follow(followers)
        os.truncate(tmp_path / "short", 50)
        file.settle(0, 100)
        with pytest.raises(AiModelError, match="shorter"):
            file.digest()
    file.close()


def test_many_files_are_followed_by_one_thread(tmp_path):
    def following() -> int:
        return sum(thread.name == "follow" for thread in threading.enumerate())

    before = following()
    with Followers() as followers:
        for _ in range(50):
            followers.add(MemoryTarget(10).read_into, 10).settle(0, 10)
        assert following() <= before + 1
    assert following() <= before


def test_files_are_added_after_one_could_not_be_read():
    def broken(_offset: int, _buffer: memoryview) -> bool:
        raise OSError("it is gone")

    with Followers() as followers:
        bad = followers.add(broken, 10)
        bad.settle(0, 10)
        while followers._all:
            time.sleep(0.001)
        good = followers.add(MemoryTarget(10).read_into, 10)
        assert good.finish() == f"sha256:{sha256(bytes(10)).hexdigest()}"
        with pytest.raises(OSError, match="gone"):
            bad.finish()
