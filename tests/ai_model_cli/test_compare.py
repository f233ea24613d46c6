"""What differs between two manifests."""

from ai_model_cli.compare import FileChange, TensorChange, compare
from ai_model_format.digest import digest_of
from ai_model_format.manifest import Chunk, File, Manifest, Tensor


def weights(path: str, **tensors: bytes) -> File:
    """Return a file whose bytes are those of its tensors, one behind the other."""
    start, listed, chunks = 0, [], []
    for name, data in tensors.items():
        end = start + len(data)
        listed.append(Tensor(name, "U8", (len(data),), start, end, digest_of(data)))
        chunks.append(Chunk(digest_of(data), len(data)))
        start = end
    whole = digest_of(b"".join(tensors.values()))
    return File(path, start, whole, "x/y", "safetensors", tuple(chunks), tuple(listed))


def test_equal_manifests_do_not_differ():
    manifest = Manifest((weights("m", a=b"12", b=b"3"),))
    found = compare(manifest, manifest)
    assert (found.files, found.tensors, found.bytes_new) == ((), (), 0)


def test_each_kind_of_change_is_named():
    older = Manifest((weights("gone", a=b"9"), weights("m", a=b"12", b=b"3", c=b"4")))
    newer = Manifest((weights("m", a=b"12", b=b"999", d=b"4"), weights("new", a=b"12")))
    found = compare(older, newer)
    assert found.files == (
        FileChange("gone", "removed", 0),
        FileChange("m", "changed", 6),
        FileChange("new", "added", 2),
    )
    assert found.tensors == (
        TensorChange("gone", "a", "removed", 0),
        TensorChange("m", "b", "changed", 3),
        TensorChange("m", "c", "removed", 0),
        TensorChange("m", "d", "added", 1),
        TensorChange("new", "a", "added", 2),
    )
    assert found.bytes_new == 3
