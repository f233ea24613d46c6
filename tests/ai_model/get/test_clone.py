"""Shared blocks count only once what lies in the target was hashed.

Few machines' temporary folders can share blocks, so a stand-in keeps the kernel's rules (whole
blocks, both offsets on them) and copies; where the folder can, the kernel itself is asked.
"""

import errno
import os
import threading
from hashlib import sha256
from random import Random

import pytest

from ai_model.get import clone
from ai_model.get.clone import BLOCK, MIN_SIZE, clone_range
from ai_model.get.holdings import Holding
from ai_model.get.plan import Piece, Place
from ai_model.get.reuse import Reuser
from ai_model.get.targets import FileTarget
from ai_model.progress import Meter

SIZE = MIN_SIZE + 3 * BLOCK + 77


@pytest.fixture
def shared(monkeypatch) -> list[int]:
    """Share blocks by copying them; the sizes that were shared."""
    sizes: list[int] = []

    def share(source: int, start: int, target: int, offset: int, size: int) -> None:
        if start % BLOCK or offset % BLOCK or size % BLOCK:
            raise OSError(errno.EINVAL, "not whole blocks")
        os.pwrite(target, os.pread(source, size, start), offset)
        sizes.append(size)

    monkeypatch.setattr(clone, "_share", share)
    return sizes


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source"
    path.write_bytes(Random(1).randbytes(SIZE + 4 * BLOCK))
    return path


def reuse(source, start: int, places: list[int], tmp_path, *, digest_of: bytes) -> bytes | None:
    """Copy a piece; return the target's bytes, ``None`` where the source was found to be bad."""
    target = FileTarget(tmp_path / "target", writable=True)
    target.resize(max(places) + SIZE)
    digest = f"sha256:{sha256(digest_of).hexdigest()}"
    piece = Piece(digest, SIZE, None, 0, tuple(Place(0, offset) for offset in places))
    reuser = Reuser(workers=1, meter=Meter("reuse", SIZE, None), stopped=threading.Event())
    left = reuser.copy([piece], {digest: [Holding(str(source), start)]}, [target])
    target.close()
    return None if left else (tmp_path / "target").read_bytes()


@pytest.mark.parametrize("start", [0, 1, BLOCK, BLOCK + 100, 2 * BLOCK - 1])
def test_bytes_are_shared_where_blocks_fit(start, source, shared, tmp_path):
    data = source.read_bytes()[start : start + SIZE]
    offset = start % BLOCK + 3 * BLOCK
    found = reuse(source, start, [offset], tmp_path, digest_of=data)
    assert found[offset : offset + SIZE] == data
    assert len(shared) == 1
    assert shared[0] >= SIZE - 2 * BLOCK


def test_bytes_are_copied_where_blocks_do_not_fit(source, shared, tmp_path):
    data = source.read_bytes()[:SIZE]
    assert reuse(source, 0, [100], tmp_path, digest_of=data)[100:] == data
    assert not shared


def test_a_piece_that_stands_twice_is_right_in_both_places(source, shared, tmp_path):
    data = source.read_bytes()[:SIZE]
    offset = -(-SIZE // BLOCK) * BLOCK
    found = reuse(source, 0, [0, offset], tmp_path, digest_of=data)
    assert found[:SIZE] == data == found[offset:]
    assert len(shared) == 2


def test_a_damaged_source_is_noticed_in_the_target(source, shared, tmp_path):
    data = bytearray(source.read_bytes())
    wanted = bytes(data[:SIZE])
    data[SIZE // 2] ^= 1
    source.write_bytes(data)
    assert reuse(source, 0, [0], tmp_path, digest_of=wanted) is None
    assert shared


def test_what_a_kernel_writes_wrong_is_replaced_by_a_copy(source, monkeypatch, tmp_path):
    """The target is hashed, not the source, so sharing that went wrong cannot pass."""
    monkeypatch.setattr(clone, "_share", lambda *_: None)
    data = source.read_bytes()[:SIZE]
    assert reuse(source, 0, [0], tmp_path, digest_of=data) == data


def test_a_refusal_is_not_asked_for_again(source, monkeypatch, tmp_path):
    asked = []

    def refuse(*numbers: int) -> None:
        asked.append(numbers)
        raise OSError(errno.EOPNOTSUPP, "no")

    monkeypatch.setattr(clone, "_share", refuse)
    one, target = FileTarget(source, writable=False), FileTarget(tmp_path / "t", writable=True)
    assert not any(target.clone_from(one, 0, 0, SIZE) for _ in range(3))
    assert len(asked) == 1


def test_the_kernel_shares_or_says_no(source, tmp_path):
    with source.open("rb") as one, (tmp_path / "t").open("wb+") as other:
        other.truncate(SIZE)
        if clone_range(one.fileno(), 5, other.fileno(), 5, SIZE - 5):
            assert (tmp_path / "t").read_bytes()[5:] == source.read_bytes()[5:SIZE]
        else:
            assert not (tmp_path / "t").read_bytes().strip(b"\0")
