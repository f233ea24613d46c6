"""Zip archives as torch writes them: stored, aligned, sizes behind the data. Pure.

torch can work out where storages lie without reading (its
``calculate_storage_offsets``), so each byte around a record stands where torch
would put it: the ``FB`` padding field, the data descriptor, zip64 fields.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from ai_model_format.byte_range import ByteRange
from ai_model_format.formats.interface import Literal, Segment, SourceRange

_FULL_32 = 0xFFFFFFFF
_FULL_16 = 0xFFFF
_FLAGS = 0x0808  # a data descriptor follows, names are UTF-8


@dataclass(frozen=True, slots=True)
class Record:
    """One entry to write.

    Attributes:
        name: path inside the archive.
        crc: CRC-32 of the content.
        content: the bytes, or where they stand in the source.
    """

    name: str
    crc: int
    content: bytes | ByteRange

    @property
    def size(self) -> int:
        """Bytes of the content."""
        return self.content.size if isinstance(self.content, ByteRange) else len(self.content)


def write_archive(records: Sequence[Record], *, alignment: int) -> list[Segment]:
    """Return the segments of an archive, each content at a multiple of ``alignment``."""
    segments: list[Segment] = []
    central: list[bytes] = []
    pending = bytearray()
    offset = 0
    for record in records:
        header = _local_header(record, offset, alignment)
        central.append(_central_header(record, offset))
        pending += header
        if isinstance(record.content, bytes):
            pending += record.content
        elif record.size:
            segments += [Literal(bytes(pending)), SourceRange(record.content)]
            pending.clear()
        descriptor = _descriptor(record)
        pending += descriptor
        offset += len(header) + record.size + len(descriptor)
    directory = b"".join(central)
    pending += directory + _end(len(records), offset, len(directory))
    segments.append(Literal(bytes(pending)))
    return segments


def _local_header(record: Record, offset: int, alignment: int) -> bytes:
    name = record.name.encode("utf-8")
    extra = _zip64_field(record.size, offset)
    unpadded = offset + 30 + len(name) + len(extra) + 4
    padding = -unpadded % alignment
    extra += struct.pack("<2sH", b"FB", padding) + b"Z" * padding
    fixed = struct.pack(
        "<4sHHHHHIIIHH", b"PK\x03\x04", 0, _FLAGS, 0, 0, 0, 0, 0, 0, len(name), len(extra)
    )
    return fixed + name + extra


def _central_header(record: Record, offset: int) -> bytes:
    name = record.name.encode("utf-8")
    extra = _zip64_field(record.size, offset)
    size = min(record.size, _FULL_32)
    fixed = struct.pack(
        "<4sHHHHHHIIIHHHHHII",
        *(b"PK\x01\x02", 0, 0, _FLAGS, 0, 0, 0, record.crc, size, size),
        *(len(name), len(extra), 0, 0, 0, 0, min(offset, _FULL_32)),
    )
    return fixed + name + extra


def _zip64_field(size: int, offset: int) -> bytes:
    """Return the extra field for what 32 bits cannot say: size twice, then the header's offset."""
    numbers = [size, size] if size >= _FULL_32 else []
    numbers += [offset] if offset >= _FULL_32 else []
    if not numbers:
        return b""
    return struct.pack(f"<HH{len(numbers)}Q", 1, 8 * len(numbers), *numbers)


def _descriptor(record: Record) -> bytes:
    numbers = "QQ" if record.size >= _FULL_32 else "II"
    return struct.pack(f"<4sI{numbers}", b"PK\x07\x08", record.crc, record.size, record.size)


def _end(count: int, start: int, length: int) -> bytes:
    """Return the zip64 end record, its locator and the end record, as torch always does."""
    end_64 = struct.pack(
        "<4sQHHIIQQQQ", b"PK\x06\x06", 44, 0, 45, 0, 0, count, count, length, start
    )
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, start + length, 1)
    small = min(count, _FULL_16)
    end = struct.pack(
        "<4sHHHHIIH",
        *(b"PK\x05\x06", 0, 0, small, small, min(length, _FULL_32), min(start, _FULL_32), 0),
    )
    return end_64 + locator + end
