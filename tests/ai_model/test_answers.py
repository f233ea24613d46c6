"""What is read without pydantic is what ``wire`` reads."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ai_model.answers import Unreadable, read_layout, read_resolved
from ai_model_format import wire

DIGEST = f"sha256:{'a' * 64}"
SIZES = st.integers(0, 2**53 - 1)
TIMES = st.datetimes(
    min_value=datetime(1971, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC)
)
TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=20)
NAMES = st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True)
OBJECTS = st.builds(
    wire.ObjectSource,
    digest=st.just(DIGEST),
    size=SIZES,
    url=TEXTS,
    origin_url=st.none() | TEXTS,
)
RUNS = st.lists(st.tuples(SIZES, SIZES, SIZES), max_size=4)
LAYOUTS = st.builds(
    wire.LayoutInfo,
    model_id=TEXTS,
    version=TEXTS,
    manifest_digest=st.just(DIGEST),
    objects=st.lists(OBJECTS, max_size=3),
    files=st.lists(st.builds(wire.FileLayout, path=TEXTS, runs=RUNS), max_size=3),
    expires_at=TIMES,
)
PATTERNS = st.lists(TEXTS.filter(bool), min_size=1, max_size=3)
METADATA = st.builds(wire.Metadata, groups=st.dictionaries(NAMES, PATTERNS, max_size=3))
VERSIONS = st.builds(
    wire.VersionInfo,
    model_id=TEXTS,
    version=TEXTS,
    manifest_digest=st.just(DIGEST),
    size=SIZES,
    stored_bytes=SIZES,
    created_at=TIMES,
    created_by=TEXTS,
    yanked_at=st.none() | TIMES,
    yank_reason=st.none() | TEXTS,
    metadata=METADATA,
    files=st.just([]),
)
BROKEN = [None, True, -1, 1.5, "x", [], {}, [None], ["x"], [[1, 2]], [[1, 2, "x"]], {"groups": 1}]


@given(LAYOUTS)
def test_layouts_are_read_alike(layout: wire.LayoutInfo):
    read = read_layout(layout.model_dump_json().encode())
    assert read.manifest_digest == layout.manifest_digest
    assert read.expires_at == layout.expires_at
    assert [(o.digest, o.size, o.url, o.origin_url) for o in read.objects] == [
        (o.digest, o.size, o.url, o.origin_url) for o in layout.objects
    ]
    assert [(f.path, f.runs) for f in read.files] == [(f.path, f.runs) for f in layout.files]


@given(VERSIONS)
def test_versions_are_read_alike(info: wire.VersionInfo):
    data = info.model_dump_json().encode()
    read = read_resolved(data)
    assert (read.model_id, read.version) == (info.model_id, info.version)
    assert (read.manifest_digest, read.size) == (info.manifest_digest, info.size)
    assert read.yanked == (info.yanked_at is not None)
    assert read.yank_reason == (info.yank_reason or "")
    assert read.groups == info.metadata.groups
    assert wire.VersionInfo.model_validate_json(read.answer) == info


@given(LAYOUTS, st.sampled_from(["objects", "files", "expires_at"]), st.sampled_from(BROKEN))
def test_what_wire_refuses_of_a_layout_is_refused(layout: wire.LayoutInfo, name: str, bad: object):
    _refused_alike(wire.LayoutInfo, read_layout, layout.model_dump(mode="json") | {name: bad})


@given(VERSIONS, st.sampled_from(["size", "metadata", "model_id"]), st.sampled_from(BROKEN))
def test_what_wire_refuses_of_a_version_is_refused(info: wire.VersionInfo, name: str, bad: object):
    _refused_alike(wire.VersionInfo, read_resolved, info.model_dump(mode="json") | {name: bad})


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"[" * 100_000, b'{"objects": 1}'])
@pytest.mark.parametrize("read", [read_layout, read_resolved])
def test_what_is_no_answer_is_refused(read, data):
    with pytest.raises(Unreadable):
        read(data)


def _refused_alike(kind, read, document):
    data = json.dumps(document).encode()
    try:
        kind.model_validate_json(data)
    except ValidationError:
        with pytest.raises(Unreadable):
            read(data)
