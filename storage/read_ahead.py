"""Read several ranges at once and hand them on in order, so that hashing need not wait.

One connection to an S3 store brings a fifth of what one core can hash.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from storage.parts import MIB

SPAN_SIZE = 32 * MIB
"""Bytes of a range that one thread reads; as much of each is held until its turn comes."""
AHEAD = 2

Reader = Callable[[int, int], Iterable[bytes]]


def read_ahead(
    sources: Iterable[tuple[Reader, int, int]], *, ahead: int = AHEAD, span_size: int = SPAN_SIZE
) -> Iterator[bytes]:
    """Yield bytes of several sources, one behind the other, in the pieces they are read in.

    Holds at most ``ahead + 1`` spans. Errors rise where the bytes would have come.

    Args:
        sources: how to read one, from where, up to where.
        ahead: spans to read at once.
        span_size: bytes of a span; short sources that follow each other share one.
    """
    waiting: deque[Future[list[bytes]]] = deque()
    with ThreadPoolExecutor(ahead, thread_name_prefix="read-ahead") as pool:
        try:
            for span in _spans(sources, span_size):
                waiting.append(pool.submit(_read, span))
                if len(waiting) > ahead:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _read(span: list[tuple[Reader, int, int]]) -> list[bytes]:
    return [piece for read, start, end in span for piece in read(start, end)]


def _spans(
    sources: Iterable[tuple[Reader, int, int]], span_size: int
) -> Iterator[list[tuple[Reader, int, int]]]:
    span: list[tuple[Reader, int, int]] = []
    left = span_size
    for read, begin, end in sources:
        start = begin
        while start < end:
            stop = min(end, start + left)
            span.append((read, start, stop))
            left -= stop - start
            start = stop
            if not left:
                yield span
                span, left = [], span_size
    if span:
        yield span
