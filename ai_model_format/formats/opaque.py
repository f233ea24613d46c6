"""Opaque: a file whose inside is not known. It is chunked and verified, never taken apart."""

from collections.abc import Collection, Sequence

from ai_model_format.byte_range import ByteRange
from ai_model_format.formats.interface import (
    Index,
    ReadRange,
    Segment,
    SourceRange,
    SubsetNotPossible,
)
from ai_model_format.manifest import OPAQUE, Tensor


class Opaque:
    """Every file: the last format that is asked."""

    name = OPAQUE
    media_type = "application/octet-stream"

    def matches(self, head: bytes, size: int) -> bool:
        """Say yes: any bytes are an opaque file."""
        return True

    def index(self, read: ReadRange, size: int) -> Index:
        """Return an empty index without reading."""
        return Index(tensors=(), structure=())

    def subset(
        self, read: ReadRange, size: int, tensors: Sequence[Tensor], chosen: Collection[str]
    ) -> list[Segment]:
        """Return the whole file, which is all that can be had of it.

        Raises:
            SubsetNotPossible: tensors are asked for.
        """
        if chosen:
            raise SubsetNotPossible("an opaque file has no tensors to choose from")
        return [SourceRange(ByteRange(0, size))] if size else []
