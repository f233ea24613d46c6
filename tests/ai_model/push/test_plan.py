"""Laws of what a push sends."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from ai_model.push import plan
from ai_model.push.plan import plan_objects
from ai_model_format.byte_range import ByteRange
from ai_model_format.digest import digest_of
from ai_model_format.manifest import Chunk, File, Manifest


def make_file(path: str, contents: list[bytes]) -> File:
    data = b"".join(contents)
    chunks = tuple(Chunk(digest_of(content), len(content)) for content in contents)
    return File(path, len(data), digest_of(data), "application/octet-stream", "opaque", chunks)


CHUNK = st.binary(min_size=1, max_size=6)


@st.composite
def pushes(draw):
    """Files of small chunks, some equal, and which chunk digests the registry lacks."""
    contents = draw(st.lists(st.lists(CHUNK, max_size=6), min_size=1, max_size=5))
    files = [make_file(f"f{number}", chunks) for number, chunks in enumerate(contents)]
    digests = sorted({chunk.digest for file in files for chunk in file.chunks})
    lacking = draw(st.sets(st.sampled_from(digests))) if digests else set()
    data = {file.path: b"".join(c) for file, c in zip(files, contents, strict=True)}
    missing = {
        file.path: [
            (index, index + 1) for index, chunk in enumerate(file.chunks) if chunk.digest in lacking
        ]
        for file in files
    }
    return Manifest(tuple(files)), missing, lacking, data


@given(pushes())
def test_sends_every_missing_chunk_and_nothing_that_is_there(push):
    manifest, missing, lacking, _ = push
    files = {file.path: file for file in manifest.files}
    sent = [
        files[content.path].chunks[index].digest
        for planned in plan_objects(manifest, missing)
        for content in planned.contents
        for index in range(content.first_chunk, content.last_chunk)
    ]
    assert set(sent) == lacking


@given(pushes())
def test_a_file_of_which_nothing_is_known_goes_under_its_own_digest(push):
    manifest, missing, _, _ = push
    objects = plan_objects(manifest, missing)
    whole = {p.digest for p in objects if p.digest is not None}
    before: set[str] = set()
    for file in manifest.files:
        digests = {chunk.digest for chunk in file.chunks}
        if file.chunks and len(missing[file.path]) == len(file.chunks) and not digests & before:
            assert file.sha256 in whole
        before |= digests


def test_tensors_that_stand_in_two_files_are_sent_once():
    tensors = [b"a" * 50, b"b" * 50]
    first = make_file("model.bin", [b"zip", *tensors])
    second = make_file("model.safetensors", [b"header", *tensors])
    objects = plan_objects(
        Manifest((first, second)), {"model.bin": [(0, 3)], "model.safetensors": [(0, 3)]}
    )
    assert [planned.size for planned in objects] == [first.size, len(b"header")]


@given(pushes())
def test_digests_and_slices_tell_the_truth(push):
    manifest, missing, _, data = push
    for planned in plan_objects(manifest, missing):
        pieces = planned.slices(ByteRange(0, planned.size))
        content = b"".join(data[path][part.start : part.end] for path, part in pieces)
        assert len(content) == planned.size
        if planned.digest is not None:
            assert "sha256:" + hashlib.sha256(content).hexdigest() == planned.digest


@given(pushes(), st.data())
def test_slices_of_a_part_are_a_part_of_the_slices(push, draw):
    manifest, missing, _, data = push
    for planned in plan_objects(manifest, missing):
        whole = b"".join(
            data[path][r.start : r.end] for path, r in planned.slices(ByteRange(0, planned.size))
        )
        start = draw.draw(st.integers(0, planned.size))
        end = draw.draw(st.integers(start, planned.size))
        part = planned.slices(ByteRange(start, end))
        assert b"".join(data[p][r.start : r.end] for p, r in part) == whole[start:end]


def test_packs_end_at_their_largest_size(monkeypatch):
    monkeypatch.setattr(plan, "MAX_PACK_SIZE", 40)
    known, contents = [b"known"], [bytes([n]) * 10 for n in range(10)]
    manifest = Manifest((make_file("f", known + contents),))
    objects = plan_objects(manifest, {"f": [(1, 11)]})
    assert [planned.size for planned in objects] == [40, 40, 20]


def test_equal_files_are_sent_once():
    manifest = Manifest((make_file("a", [b"1", b"2"]), make_file("b", [b"1", b"2"])))
    objects = plan_objects(manifest, {"a": [(0, 2)], "b": [(0, 2)]})
    assert [planned.contents[0].path for planned in objects] == ["a"]
