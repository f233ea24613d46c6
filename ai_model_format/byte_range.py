"""Half-open byte ranges and the arithmetic of HTTP ``Range``. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_CONTENT_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19}|\*)", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class ByteRange:
    """Bytes ``start`` up to but not including ``end``.

    Raises:
        ValueError: ``start`` is negative or behind ``end``.
    """

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"not a byte range: {self.start} to {self.end}")

    @property
    def size(self) -> int:
        """Bytes in the range."""
        return self.end - self.start

    def http_header(self) -> str:
        """Return the value of a ``Range`` header (RFC 9110, section 14.2).

        Raises:
            ValueError: the range is empty, which HTTP cannot say.
        """
        if not self.size:
            raise ValueError("an empty range cannot be requested")
        return f"bytes={self.start}-{self.end - 1}"

    def __contains__(self, other: object) -> bool:
        return isinstance(other, ByteRange) and self.start <= other.start and other.end <= self.end


def parse_content_range(header: str) -> tuple[ByteRange, int | None]:
    """Read a ``Content-Range`` header (RFC 9110, section 14.4).

    Returns:
        The range and the whole size, ``None`` where the server does not say.

    Raises:
        ValueError: it is not one satisfied range of bytes.
    """
    match = _CONTENT_RANGE.fullmatch(header)
    if not match:
        raise ValueError(f"not a satisfied Content-Range: {header[:100]!r}")
    first, last, whole = match.groups()
    return ByteRange(int(first), int(last) + 1), None if whole == "*" else int(whole)


def merge_ranges(ranges: Iterable[ByteRange], *, max_gap: int) -> list[ByteRange]:
    """Join ranges that overlap or lie close together, so that fewer requests fetch them.

    A gap between two wanted ranges is downloaded and thrown away, so ``max_gap``
    trades wasted bytes against round trips.

    Raises:
        ValueError: ``max_gap`` is negative.
    """
    if max_gap < 0:
        raise ValueError(f"max_gap is negative: {max_gap}")
    merged: list[ByteRange] = []
    for wanted in sorted(ranges):
        if merged and wanted.start - merged[-1].end <= max_gap:
            merged[-1] = ByteRange(merged[-1].start, max(merged[-1].end, wanted.end))
        else:
            merged.append(wanted)
    return merged
