"""Keys and part sizes: pure arithmetic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ai_model_format.digest import digest_of
from storage.keys import is_upload_key, new_upload_key, object_key, parse_object_key
from storage.parts import MAX_PARTS, MIB, MIN_PART_SIZE, plan_part_size

NAME = "ab" + "cd" + "0" * 60


def test_an_object_key() -> None:
    assert object_key(f"sha256:{NAME}") == f"objects/sha256/ab/cd/{NAME}"


@given(st.binary())
def test_a_key_is_read_back(data: bytes) -> None:
    assert parse_object_key(object_key(digest_of(data))) == digest_of(data)


@pytest.mark.parametrize(
    "key",
    [
        "",
        f"objects/sha256/ab/ce/{NAME}",
        f"objects/sha256/ab/cd/{NAME}0",
        f"objects/sha256/ab/cd/{NAME.upper()}",
        f"x/objects/sha256/ab/cd/{NAME}",
        f"objects/sha256/ab/cd/{NAME}\n",
        f"uploads/{NAME}",
    ],
)
def test_what_is_no_object_key(key: str) -> None:
    assert parse_object_key(key) is None


def test_upload_keys_are_new() -> None:
    keys = {new_upload_key() for _ in range(100)}
    assert len(keys) == 100
    assert all(map(is_upload_key, keys))
    assert not is_upload_key("uploads/../objects")
    assert not is_upload_key(object_key(f"sha256:{NAME}"))


@given(st.integers(1, 2**53))
def test_parts_are_few_and_no_larger_than_needed(size: int) -> None:
    part_size = plan_part_size(size)
    assert part_size >= MIN_PART_SIZE
    assert -(-size // part_size) <= MAX_PARTS
    assert part_size == 16 * MIB or -(-size // (part_size - MIB)) > MAX_PARTS
