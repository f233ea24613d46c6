"""The disk is told early of a large file's bytes, and the file is the same."""

import os

from ai_model.get import writeback
from ai_model.get.targets import FileTarget


def test_ranges_of_large_files_alone_are_handed_to_the_disk(tmp_path, monkeypatch):
    begun: list[tuple[int, int]] = []
    really = writeback._sync_file_range()
    assert really is not None

    def noting(descriptor: int, offset: int, size: int, flags: int) -> int:
        assert really(descriptor, offset, size, flags) == 0  # the system takes it
        begun.append((offset, size))
        return 0

    monkeypatch.setattr(writeback, "_sync_file_range", lambda: noting)
    data = os.urandom(writeback.MIN_SIZE)
    for name, size in (("large", writeback.MIN_FILE_SIZE), ("small", writeback.MIN_SIZE)):
        file = FileTarget(tmp_path / name, writable=True)
        file.resize(size)
        file.write(0, memoryview(data))
        file.write(0, memoryview(data[:1]))
        file.sync()
        file.close()
        with (tmp_path / name).open("rb") as written:
            assert written.read(len(data)) == data
    assert begun == [(0, len(data))]
