"""Digests are SHA-256 with their algorithm's name."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ai_model_format.digest import (
    EMPTY_DIGEST,
    digest_from_raw,
    digest_of,
    hex_of,
    parse_digest,
    raw_of,
)
from ai_model_format.names import InvalidName


@given(some.binary())
def test_a_digest_goes_through_every_form(data: bytes) -> None:
    digest = digest_of(data)
    assert hex_of(digest) == hashlib.sha256(data).hexdigest()
    assert digest_from_raw(raw_of(parse_digest(digest))) == digest
    assert digest_of(bytearray(data)) == digest_of(memoryview(data)) == digest


def test_the_digest_of_nothing() -> None:
    assert digest_of(b"") == EMPTY_DIGEST


@pytest.mark.parametrize(
    "text",
    ["", "sha256:", "a" * 64, "sha256:" + "A" * 64, "sha256:" + "a" * 63, "md5:" + "a" * 64,
     "sha256:" + "a" * 64 + "\n", " sha256:" + "a" * 64, "sha256:" + "\u0661" * 64],
)  # fmt: skip
def test_what_is_no_digest(text: str) -> None:
    with pytest.raises(InvalidName, match="digest"):
        parse_digest(text)
