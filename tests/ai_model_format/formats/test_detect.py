"""Formats are known by their bytes; manifests name them."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ai_model_format.byte_range import ByteRange
from ai_model_format.formats.detect import detect, index_file
from ai_model_format.formats.interface import (
    InvalidWeightFile,
    NotIndexable,
    SourceRange,
    SubsetNotPossible,
)
from ai_model_format.formats.named import NAMES, format_named
from ai_model_format.formats.opaque import Opaque
from tests.ai_model_format.formats.reading import reader


def test_every_format_is_found_by_its_name() -> None:
    assert [format_named(name).name for name in NAMES] == list(NAMES)
    with pytest.raises(LookupError, match="'gguf9' is not known"):
        format_named("gguf9")


def test_the_last_format_takes_every_file() -> None:
    assert isinstance(format_named(list(NAMES)[-1]), Opaque)
    assert detect(b"", 0).name == "opaque"


@given(some.binary(max_size=200))
def test_any_bytes_have_a_format(data: bytes) -> None:
    try:
        format, index = index_file(reader(data), len(data))
    except InvalidWeightFile:
        assert detect(data, len(data)).name != "opaque"
        return
    assert not index.tensors or format.name != "opaque"


def test_an_opaque_file_is_had_whole_or_not_at_all() -> None:
    opaque = Opaque()
    assert opaque.subset(reader(b"abc"), 3, (), ()) == [SourceRange(ByteRange(0, 3))]
    assert opaque.subset(reader(b""), 0, (), ()) == []
    with pytest.raises(SubsetNotPossible, match="no tensors"):
        opaque.subset(reader(b"abc"), 3, (), ["encoder"])


def test_errors_say_format_and_reason() -> None:
    assert str(InvalidWeightFile("x", "why")) == "not a valid x file: why"
    assert str(NotIndexable("x", "why")) == "this x file is kept whole: why"
