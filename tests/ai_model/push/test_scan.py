"""What a push takes of a directory, and what it refuses."""

import os
import socket
from pathlib import Path

import pytest

from ai_model.errors import PathNotFound, PathRefused, UsageError
from ai_model.push.scan import scan


def paths(root: Path) -> list[str]:
    return [file.path for file in scan(root).files]


def test_takes_nested_empty_and_oddly_named_files(tmp_path):
    names = ["a b.txt", "a%20b.txt", "köpfe/größe.bin", "empty", "deep/er/still/x", ".hidden"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"" if name == "empty" else name.encode())
    assert paths(tmp_path) == sorted(names)
    assert {file.path: file.size for file in scan(tmp_path).files}["empty"] == 0


def test_a_single_file_is_named_by_its_own_name(tmp_path):
    (tmp_path / "model.bin").write_bytes(b"x")
    assert paths(tmp_path / "model.bin") == ["model.bin"]


def test_follows_links_inside(tmp_path):
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "one").write_bytes(b"1")
    (tmp_path / "file").symlink_to("blobs/one")
    (tmp_path / "folder").symlink_to("blobs")
    assert paths(tmp_path) == ["blobs/one", "file", "folder/one"]


def test_a_link_that_is_pushed_itself_is_followed_anywhere(tmp_path):
    (tmp_path / "target").write_bytes(b"1")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "link").symlink_to(tmp_path / "target")
    assert paths(tmp_path / "d" / "link") == ["link"]


@pytest.mark.parametrize("target", ["../outside", "/etc/hostname", "missing"])
def test_refuses_links_that_leave_or_lead_nowhere(tmp_path, target):
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "outside").write_bytes(b"secret")
    (root / "ok").write_bytes(b"1")
    (root / "link").symlink_to(target)
    with pytest.raises(PathRefused, match="link"):
        scan(root)


def test_refuses_links_in_circles(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "up").symlink_to("..")
    with pytest.raises(PathRefused, match="lies in"):
        scan(tmp_path)


def test_refuses_special_files(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PathRefused, match="neither a file nor a directory"):
        scan(tmp_path)
    (tmp_path / "pipe").unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        with pytest.raises(PathRefused, match="neither"):
            scan(tmp_path)


@pytest.mark.parametrize("name", [b"bad-\xff-utf8", b"back\\slash", b"new\nline"])
def test_refuses_names_that_no_version_can_hold(tmp_path, name):
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_bytes(b"1")
    with pytest.raises(PathRefused, match="cannot be named"):
        scan(tmp_path)


def test_says_what_it_leaves_out(tmp_path):
    for left_out in (".git", ".ai-model", "sub/.git"):
        (tmp_path / left_out).mkdir(parents=True)
        (tmp_path / left_out / "x").write_bytes(b"1")
    (tmp_path / "hollow").mkdir()
    (tmp_path / "kept").write_bytes(b"1")
    found = scan(tmp_path)
    assert [file.path for file in found.files] == ["kept"]
    for left_out in (".git", ".ai-model", "sub/.git", "hollow/"):
        assert any(note.startswith(f"{left_out} ") for note in found.notes)


def test_nothing_to_push(tmp_path):
    with pytest.raises(UsageError, match="no file"):
        scan(tmp_path)
    with pytest.raises(PathNotFound):
        scan(tmp_path / "missing")
