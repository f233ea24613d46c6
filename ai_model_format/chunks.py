"""From tensors and the gaps between them to chunks that tile a file. Pure.

A chunk starts and ends with a tensor where it can, so that equal tensors are
equal chunks in whatever file, format or order they stand. A tensor or gap
longer than ``MAX_CHUNK_SIZE`` is sliced from its own first byte on, for the
same reason.
"""

from collections.abc import Iterable
from itertools import pairwise

from ai_model_format.byte_range import ByteRange
from ai_model_format.manifest import MAX_CHUNK_SIZE

WORTH_SHARING = 0.01
"""Share of a file's bytes that must be stored elsewhere before only the rest is sent.

Below it the whole file goes as one object that any S3 tool can fetch, which is
worth one percent of sending.
"""


def plan_chunks(size: int, borders: Iterable[ByteRange]) -> list[ByteRange]:
    """Cut a file of ``size`` bytes into chunks at every start and end in ``borders``.

    Returns:
        Ranges that tile the file exactly, none empty, none over ``MAX_CHUNK_SIZE``.

    Raises:
        ValueError: a border lies outside the file.
    """
    cuts = {0, size}
    for border in borders:
        if border.end > size:
            raise ValueError(f"bytes {border.start} to {border.end} lie outside {size}")
        cuts.update((border.start, border.end))
    return [
        ByteRange(start, min(start + MAX_CHUNK_SIZE, end))
        for begin, end in pairwise(sorted(cuts))
        for start in range(begin, end, MAX_CHUNK_SIZE)
    ]
