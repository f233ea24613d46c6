"""Read files in memory, put subsets together, and hold both to the interface's laws."""

from collections.abc import Sequence

from ai_model_format.byte_range import ByteRange
from ai_model_format.chunks import plan_chunks
from ai_model_format.formats.interface import Index, Literal, ReadRange, Segment, SourceRange


def reader(data: bytes) -> ReadRange:
    """Read from bytes, and fail on what no file can answer."""

    def read(start: int, end: int) -> bytes:
        assert 0 <= start <= end <= len(data), f"read {start} to {end} of {len(data)}"
        return data[start:end]

    return read


def within(data: bytes, structure: Sequence[ByteRange]) -> ReadRange:
    """Read from bytes, but only inside ``structure``."""

    def read(start: int, end: int) -> bytes:
        wanted = ByteRange(start, end)
        assert any(wanted in part for part in structure), f"{wanted} is outside the structure"
        return data[start:end]

    return read


def assemble(data: bytes, segments: Sequence[Segment], index: Index) -> bytes:
    """Write a subset, checking that every source range is made of whole chunks."""
    cuts = cut_points(len(data), index)
    out = []
    for segment in segments:
        match segment:
            case Literal(data=literal):
                assert literal
                out.append(literal)
            case SourceRange(range=source):
                assert source.size
                assert {source.start, source.end} <= cuts
                out.append(data[source.start : source.end])
    return b"".join(out)


def cut_points(size: int, index: Index) -> set[int]:
    """Return where the chunks of a file start and end."""
    borders = [*(t.range for t in index.tensors), *index.structure, *index.borders]
    return {0} | {chunk.end for chunk in plan_chunks(size, borders)}


def cost(segments: Sequence[Segment], index: Index) -> int:
    """Bytes to fetch for a subset: its structure and its source ranges."""
    copied = sum(s.range.size for s in segments if isinstance(s, SourceRange))
    return copied + sum(part.size for part in index.structure)
