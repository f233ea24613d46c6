"""HTTP ``Range`` as a server reads it (RFC 9110, section 14). Pure."""

import re

from ai_model_format.byte_range import ByteRange

_ONE_RANGE = re.compile(r"bytes=[ \t]*(\d{0,19})-(\d{0,19})[ \t]*", re.ASCII)


class NoByteInRange(ValueError):
    """The range lies behind the end."""


def requested_range(header: str | None, size: int) -> ByteRange | None:
    """Return the bytes that a ``Range`` header asks for.

    Returns:
        ``None`` for the whole: no header, one that is not understood, or several
        ranges, which a server may answer in full.

    Raises:
        NoByteInRange: nothing of the range exists.
    """
    match = _ONE_RANGE.fullmatch(header or "")
    if not match or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < int(first):
            return None
    if start >= end:
        raise NoByteInRange(header)
    return ByteRange(start, end)


def tag_matches(header: str | None, etag: str) -> bool:
    """Say whether an ``If-None-Match`` or ``If-Match`` header names this ETag."""
    if header is None:
        return False
    tags = [tag.strip().removeprefix("W/") for tag in header.split(",")]
    return "*" in tags or etag in tags
