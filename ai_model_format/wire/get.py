"""Get: where the bytes of a version lie."""

from datetime import datetime

from ai_model_format.wire.base import Response, Size


class ObjectSource(Response):
    """Where to read an object by HTTP ``Range``.

    Attributes:
        digest: of the whole object.
        size: of the whole object.
        url: GET with a ``Range`` header; perhaps an edge.
        origin_url: past the edge, where there is one.
    """

    digest: str
    size: Size
    url: str
    origin_url: str | None = None


class FileLayout(Response):
    """A file as runs of (index in ``objects``, offset, size), one behind the other."""

    path: str
    runs: list[tuple[int, int, int]]


class LayoutInfo(Response):
    """Where a version's bytes lie now, with URLs that work until ``expires_at``."""

    model_id: str
    version: str
    manifest_digest: str
    objects: list[ObjectSource]
    files: list[FileLayout]
    expires_at: datetime
