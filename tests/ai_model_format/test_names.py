"""Names that people type, and what no name may be."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ai_model_format.names import (
    InvalidName,
    parse_alias,
    parse_model_id,
    parse_path,
    parse_ref,
    parse_version,
)

GOOD: list[tuple[Callable[[str], str], str]] = [
    *((parse_model_id, text) for text in ("a", "resnet50", "team/all-mini.lm_6", "a" * 96)),
    *((parse_version, text) for text in ("v2.3", "1", "_x", "2026-01-01+cpu", "A" * 128)),
    *((parse_alias, text) for text in ("production", "v1")),
    *((parse_ref, text) for text in ("latest", "v1", "sha256:" + "0" * 64)),
    *((parse_path, text) for text in ("a", "a b/é%20.bin", "...", "a/.hidden", "x" * 255)),
]
BAD: list[tuple[Callable[[str], str], str]] = [
    *((parse_model_id, t) for t in ("", "A", "a--b", "a..b", "-a", "a-", "a/b/c", "a/", "a\n")),
    *((parse_model_id, t) for t in ("a" * 97, "é", "team/versions", "a\0", "a/..")),
    *((parse_version, t) for t in ("", "latest", "-v", ".v", "a/b", "v 1", "A" * 129, "v1\n")),
    *((parse_alias, t) for t in ("latest", "a:b")),
    *((parse_ref, t) for t in ("", "sha256:00", "a b", "sha256:" + "A" * 64)),
    *((parse_path, t) for t in ("", "/a", "../a", "a/../b", "a//b", "./a", "a/.", "a\\b", "a\0")),
    *((parse_path, t) for t in ("a\n", "\x7f", "\x85", "\ud800", "x" * 256, "x/" * 600 + "x")),
    *((parse_path, t) for t in (".ai-model/x", ".AI-Model")),
]


def test_the_refusal_is_good_english() -> None:
    with pytest.raises(InvalidName, match="an alias cannot be the reserved word"):
        parse_alias("latest")


@pytest.mark.parametrize(("parse", "text"), GOOD)
def test_good_names_come_back(parse: Callable[[str], str], text: str) -> None:
    assert parse(text) == text


@pytest.mark.parametrize(("parse", "text"), BAD)
def test_bad_names_say_the_rule(parse: Callable[[str], str], text: str) -> None:
    with pytest.raises(InvalidName) as caught:
        parse(text)
    assert caught.value.rule
    assert caught.value.kind in str(caught.value)


@given(some.text())
def test_a_path_stays_inside(text: str) -> None:
    try:
        parse_path(text)
    except InvalidName:
        return
    assert not text.startswith("/")
    assert ".." not in text.split("/")
