"""Archives as torch writes them, also beyond what 32 bits can say."""

import io
import zipfile
import zlib

import pytest

from ai_model_format.byte_range import ByteRange
from ai_model_format.formats.interface import Literal, Segment, SourceRange
from ai_model_format.formats.zip_directory import data_offsets, read_directory
from ai_model_format.formats.zip_writer import Record, write_archive

GIB = 1 << 30


def sizes(segments: list[Segment]) -> int:
    return sum(len(s.data) if isinstance(s, Literal) else s.range.size for s in segments)


class Sparse(io.RawIOBase):
    """An archive of any size: literals are kept, copied ranges read as zeros."""

    def __init__(self, segments: list[Segment]) -> None:
        self.size = sizes(segments)
        self.position = 0
        self.pieces: list[tuple[int, bytes]] = []
        at = 0
        for segment in segments:
            if isinstance(segment, Literal):
                self.pieces.append((at, segment.data))
                at += len(segment.data)
            else:
                at += segment.range.size

    def read_range(self, start: int, end: int) -> bytes:
        assert end - start < 1 << 20
        out = bytearray(end - start)
        for at, data in self.pieces:
            low, high = max(start, at), min(end, at + len(data))
            if low < high:
                out[low - start : high - start] = data[low - at : high - at]
        return bytes(out)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.position

    def seek(self, offset: int, whence: int = 0) -> int:
        self.position = offset + (0, self.position, self.size)[whence]
        return self.position

    def read(self, size: int = -1) -> bytes:
        end = self.size if size < 0 else min(self.size, self.position + size)
        data = self.read_range(self.position, end)
        self.position = end
        return data


def record(name: str, size: int) -> Record:
    return Record(name, 7, ByteRange(0, size))


BIG = [
    [record("a/data/0", 5 * GIB), record("a/data/1", 3), Record("a/version", 1, b"3\n")],
    [record("a/data/0", 4 * GIB - 1), record("a/data/1", 4 * GIB - 2)],
    [record(f"a/data/{i}", GIB) for i in range(6)],
    [Record("a/data.pkl", 2, b"x" * 1000), record("a/data/0", 9 * GIB)],
]


@pytest.mark.parametrize("records", BIG)
def test_beyond_four_gibibytes(records: list[Record]) -> None:
    archive = Sparse(write_archive(records, alignment=64))
    directory = read_directory(archive.read_range, archive.size)
    starts = data_offsets(archive.read_range, directory.entries, limit=directory.start)
    assert [(e.name, e.size, e.crc) for e in directory.entries] == [
        (r.name, r.size, r.crc) for r in records
    ]
    assert all(start % 64 == 0 for start in starts.values())
    with zipfile.ZipFile(archive) as opened:
        assert [(e.filename, e.file_size) for e in opened.infolist()] == [
            (r.name, r.size) for r in records
        ]


@pytest.mark.parametrize("alignment", [1, 64, 4096])
def test_small_archives_pass_the_test_of_zipfile(alignment: int) -> None:
    contents = {"a/data.pkl": b"pickle", "a/é": b"", "a/version": b"3\n"}
    records = [Record(name, zlib.crc32(data), data) for name, data in contents.items()]
    (only,) = write_archive(records, alignment=alignment)
    assert isinstance(only, Literal)
    with zipfile.ZipFile(io.BytesIO(only.data)) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == contents


def test_empty_ranges_are_not_copied() -> None:
    segments = write_archive([record("a/data/0", 0), record("a/data/1", 1)], alignment=64)
    assert [type(s) for s in segments] == [Literal, SourceRange, Literal]


def test_more_entries_than_16_bits_count() -> None:
    records = [Record(f"a/{i}", 0, b"") for i in range(70_000)]
    (only,) = write_archive(records, alignment=1)
    assert isinstance(only, Literal)
    directory = read_directory(lambda a, b: only.data[a:b], len(only.data))
    assert len(directory.entries) == 70_000
