"""Who may go on with what an earlier run left behind."""

import os
import subprocess
import sys

from ai_model.get.partial import open_partial, remove_abandoned

KEY = "a" * 24


def test_what_was_let_go_is_adopted_with_its_bytes(tmp_path):
    first = open_partial(tmp_path, KEY)
    first.file(0, 4).write(0, memoryview(b"data"))
    first.release()
    second = open_partial(tmp_path, KEY)
    assert second.adopted
    assert second.path(0).read_bytes() == b"data"
    assert len(list(tmp_path.iterdir())) == 1


def test_what_is_in_use_is_left_alone(tmp_path):
    first = open_partial(tmp_path, KEY)
    second = open_partial(tmp_path, KEY)
    assert not first.adopted
    assert not second.adopted
    assert first.directory != second.directory


def test_other_content_is_left_alone(tmp_path):
    open_partial(tmp_path, KEY).release()
    assert not open_partial(tmp_path, "b" * 24).adopted


def test_what_a_killed_process_left_is_adopted_by_one(tmp_path):
    code = f"""
import os, signal, pathlib
from ai_model.get.partial import open_partial
p = open_partial(pathlib.Path({str(tmp_path)!r}), {KEY!r})
p.file(0, 4).write(0, memoryview(b"data"))
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code], check=False)
    partials = [open_partial(tmp_path, KEY) for _ in range(3)]
    assert [partial.adopted for partial in partials] == [True, False, False]


def test_only_old_leavings_are_cleared_away(tmp_path):
    fresh, old, used = (open_partial(tmp_path, c * 24) for c in "cde")
    fresh.release()
    old.release()
    for path in tmp_path.iterdir():
        if path.name.startswith(("partial-d", "partial-e")):
            os.utime(path, (0, 0))
    remove_abandoned(tmp_path)
    left = sorted(path.name.split("-")[1][0] for path in tmp_path.iterdir())
    assert left == ["c", "e"]
    used.remove()
