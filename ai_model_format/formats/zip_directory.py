"""The directory of a zip archive, read more strictly than unzip programs do.

Programs differ in which of two equal names they take and in whether they
believe the central directory or the local header; an archive that two readers
could read differently is refused here. Nothing is decompressed. Pure.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ai_model_format.formats.interface import ReadRange

STORED = 0
MAX_ENTRIES = 300_000
_MAX_DIRECTORY_SIZE = 64 * 1024 * 1024
_WINDOW = 64 * 1024
_FULL_32 = 0xFFFFFFFF
_FULL_16 = 0xFFFF
_DESCRIPTOR_FLAG = 0x0008
_KNOWN_FLAGS = _DESCRIPTOR_FLAG | 0x0800 | 0x0006  # sizes behind the data, UTF-8, deflate's level

_END = struct.Struct("<4sHHHHIIH")
_LOCATOR = struct.Struct("<4sIQI")
_END_64 = struct.Struct("<4sQHHIIQQQQ")
_CENTRAL = struct.Struct("<4sHHHHHHIIIHHHHHII")
_LOCAL = struct.Struct("<4sHHHHHIIIHH")


class InvalidZip(ValueError):
    """An archive is broken, or could be read in two ways."""


class UnusualZip(ValueError):
    """An archive is sound, but not one that this reader takes apart."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file in an archive, as the central directory has it.

    Attributes:
        name: path inside the archive.
        header_offset: of the local header.
        size: bytes, as stored when ``method`` is ``STORED``.
        compressed_size: bytes in the archive.
        crc: CRC-32 of the content.
        method: how the content is compressed.
        flags: general purpose bits.
    """

    name: str
    header_offset: int
    size: int
    compressed_size: int
    crc: int
    method: int
    flags: int


@dataclass(frozen=True, slots=True)
class Directory:
    """Entries in order of their place in the file, and where the central directory starts."""

    entries: Sequence[Entry]
    start: int


def read_directory(read: ReadRange, size: int) -> Directory:
    """Read the end records and the central directory of an archive of ``size`` bytes.

    Raises:
        InvalidZip: a record is cut or lies, an entry is encrypted, a name occurs twice.
        UnusualZip: there is an archive comment, or more than ``MAX_ENTRIES`` entries.
    """
    count, start, length = _read_end(read, size)
    if count > MAX_ENTRIES or length > _MAX_DIRECTORY_SIZE:
        raise UnusualZip(f"the archive has {count} entries")
    entries = _parse_central(read(start, start + length), count)
    names: set[str] = set()
    for entry in entries:
        if entry.name in names:
            raise InvalidZip(f"entry {entry.name[:200]!r} occurs twice")
        names.add(entry.name)
        _check_entry(entry)
    return Directory(sorted(entries, key=lambda entry: entry.header_offset), start)


def data_offsets(read: ReadRange, entries: Sequence[Entry], *, limit: int) -> dict[str, int]:
    """Return where each entry's content starts, by name, from the local headers.

    Args:
        read: answers for the local headers of ``entries``.
        entries: in order of their place in the file.
        limit: where the central directory starts; contents end before.

    Raises:
        InvalidZip: a local header contradicts the central directory, or entries overlap.
    """
    starts = {}
    for group in _windows(entries):
        first, last = group[0].header_offset, _header_end(group[-1])
        if last > limit:
            raise InvalidZip(f"entry {group[-1].name[:200]!r} lies outside the archive")
        window = read(first, last)
        for entry in group:
            starts[entry.name] = _data_offset(entry, window, entry.header_offset - first)
    ends = [starts[entry.name] + entry.compressed_size for entry in entries]
    for (before, after), end in zip(pairwise(entries), ends, strict=False):
        if end > after.header_offset:
            raise InvalidZip(f"entries {before.name[:200]!r} and {after.name[:200]!r} overlap")
    if ends and ends[-1] > limit:
        raise InvalidZip(f"entry {entries[-1].name[:200]!r} ends at {ends[-1]}, behind {limit}")
    return starts


def _read_end(read: ReadRange, size: int) -> tuple[int, int, int]:
    """Return the number of entries, and the start and length of the central directory."""
    if size < _END.size:
        raise InvalidZip("the archive is cut before its end record")
    end_offset = size - _END.size
    signature, disk, first_disk, here, count, length, start, comment = _END.unpack(
        read(end_offset, size)
    )
    if signature != b"PK\x05\x06" or comment:
        _refuse_other_end(read, size)
    if disk not in (0, _FULL_16) or first_disk not in (0, _FULL_16) or here != count:
        raise InvalidZip("the archive is split over several disks")
    directory_end = end_offset
    zip64 = _read_end_64(read, end_offset)
    if zip64:
        directory_end, big = zip64
        small = (count, length, start)
        for low, high, full in zip(small, big, (_FULL_16, _FULL_32, _FULL_32), strict=True):
            if low not in (high, full):
                raise InvalidZip("the two end records contradict each other")
        count, length, start = big
    if start + length != directory_end:
        raise InvalidZip(
            f"the central directory of {length} bytes at {start} does not end at {directory_end}"
        )
    return count, start, length


def _refuse_other_end(read: ReadRange, size: int) -> None:
    """Say what is wrong with an archive that does not end with a plain end record."""
    start = max(0, size - _END.size - _FULL_16)
    tail = read(start, size)
    found = tail.rfind(b"PK\x05\x06")
    if found < 0 or len(tail) - found < _END.size:
        raise InvalidZip("there is no end record: the archive is cut")
    comment_size = int(_END.unpack_from(tail, found)[7])
    if found + _END.size + comment_size != len(tail):
        raise InvalidZip(f"the end record at {start + found} does not reach the end of the file")
    raise UnusualZip("the archive has a comment")


def _read_end_64(read: ReadRange, end_offset: int) -> tuple[int, tuple[int, int, int]] | None:
    """Return where the zip64 end record stands and its (count, length, start), if there is one."""
    locator_offset = end_offset - _LOCATOR.size
    if locator_offset < 0:
        return None
    signature, disk, offset, disks = _LOCATOR.unpack(read(locator_offset, end_offset))
    if signature != b"PK\x06\x07":
        return None
    if disk or disks > 1 or offset + _END_64.size != locator_offset:
        raise InvalidZip(f"the zip64 end record is not at {offset}")
    record = _END_64.unpack(read(offset, locator_offset))
    signature, record_size, _, _, disk, first_disk, here, count, length, start = record
    if signature != b"PK\x06\x06" or record_size != _END_64.size - 12:
        raise InvalidZip(f"there is no zip64 end record at {offset}")
    if disk or first_disk or here != count:
        raise InvalidZip("the archive is split over several disks")
    return offset, (count, length, start)


def _parse_central(data: bytes, count: int) -> list[Entry]:
    entries: list[Entry] = []
    offset = 0
    while offset < len(data):
        if len(data) - offset < _CENTRAL.size:
            raise InvalidZip("the central directory is cut")
        fields = _CENTRAL.unpack_from(data, offset)
        name_start = offset + _CENTRAL.size
        name_size, extra_size, comment_size = fields[10:13]
        extra_start = name_start + name_size
        offset = extra_start + extra_size + comment_size
        if fields[0] != b"PK\x01\x02" or offset > len(data) or fields[13]:
            raise InvalidZip(f"entry {len(entries)} of the central directory is broken")
        entries.append(
            _central_entry(
                fields,
                name=data[name_start:extra_start],
                extra=data[extra_start : extra_start + extra_size],
            )
        )
    if len(entries) != count:
        raise InvalidZip(f"the central directory has {len(entries)} entries, not {count}")
    return entries


def _central_entry(fields: tuple[int, ...], *, name: bytes, extra: bytes) -> Entry:
    flags, method = fields[3], fields[4]
    try:
        text = name.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidZip(f"entry name {name[:200]!r} is not UTF-8") from None
    crc, compressed_size, size, offset = fields[7], fields[8], fields[9], fields[16]
    if _FULL_32 in (compressed_size, size, offset):
        big = iter(_zip64_numbers(extra))
        try:
            size = next(big) if size == _FULL_32 else size
            compressed_size = next(big) if compressed_size == _FULL_32 else compressed_size
            offset = next(big) if offset == _FULL_32 else offset
        except StopIteration:
            raise InvalidZip(f"entry {text[:200]!r} lacks its zip64 sizes") from None
    return Entry(text, offset, size, compressed_size, crc, method, flags)


def _zip64_numbers(extra: bytes) -> list[int]:
    """Return the 64-bit numbers of the extra field with id 1."""
    offset = 0
    while offset + 4 <= len(extra):
        field, length = struct.unpack_from("<HH", extra, offset)
        offset += 4
        if field == 1:
            numbers = extra[offset : offset + length]
            return [n for (n,) in struct.iter_unpack("<Q", numbers[: len(numbers) // 8 * 8])]
        offset += length
    return []


def _check_entry(entry: Entry) -> None:
    name = entry.name
    if "\\" in name or "\0" in name or name.startswith("/") or ".." in name.split("/"):
        raise InvalidZip(f"entry {name[:200]!r} is not a relative path")
    if entry.flags & ~_KNOWN_FLAGS:
        raise InvalidZip(f"entry {name[:200]!r} is encrypted or has flags {entry.flags:#06x}")
    if entry.method == STORED and entry.size != entry.compressed_size:
        raise InvalidZip(f"entry {name[:200]!r} is stored with two sizes")


def _header_end(entry: Entry) -> int:
    return entry.header_offset + _LOCAL.size + len(entry.name.encode("utf-8"))


def _windows(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Group entries whose local headers lie close, so that one read takes in many."""
    groups: list[list[Entry]] = []
    for entry in entries:
        if groups and _header_end(entry) - groups[-1][0].header_offset <= _WINDOW:
            groups[-1].append(entry)
        else:
            groups.append([entry])
    return groups


def _data_offset(entry: Entry, window: bytes, at: int) -> int:
    header = _LOCAL.unpack_from(window, at)
    signature, _, flags, method, _, _, crc, compressed_size, size, name_size, extra_size = header
    name_start = at + _LOCAL.size
    name = window[name_start : name_start + name_size]
    agrees = (
        signature == b"PK\x03\x04"
        and name == entry.name.encode("utf-8")
        and (flags, method) == (entry.flags, entry.method)
    )
    if agrees and not flags & _DESCRIPTOR_FLAG:
        agrees = (
            crc == entry.crc
            and compressed_size in (entry.compressed_size, _FULL_32)
            and size in (entry.size, _FULL_32)
        )
    if not agrees:
        raise InvalidZip(
            f"the local header of entry {entry.name[:200]!r} at offset {entry.header_offset}"
            " contradicts the central directory"
        )
    return entry.header_offset + _LOCAL.size + int(name_size) + int(extra_size)
