"""Read a range of an S3 object as a stream that goes on where a connection broke."""

import random
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from ai_model_format.byte_range import ByteRange, parse_content_range
from storage.interface import ObjectNotFound, StoreError, StoreUnavailable
from storage.parts import MIB
from storage.s3_client import s3_errors

PIECE_SIZE = MIB
MAX_BREAKS = 5


def read_range(client: Any, where: dict[str, Any], start: int, end: int) -> Iterator[bytes]:
    """Yield bytes ``start`` to ``end`` of the object at ``where``, in pieces of at most 1 MiB.

    A stream that breaks is opened again at the byte it broke at, up to ``MAX_BREAKS``
    times in a row without a byte.

    Raises:
        ObjectNotFound: there is no such object, or it ends before ``end``.
        StoreUnavailable: the stream broke too often.
    """
    breaks = 0
    while start < end:
        try:
            for piece in _stream(client, where, ByteRange(start, end)):
                yield piece
                start += len(piece)
                breaks = 0
        except StoreUnavailable:
            breaks += 1
            if breaks > MAX_BREAKS:
                raise
            time.sleep(random.uniform(0, 0.1 * 2**breaks))  # noqa: S311 - jitter


def _stream(client: Any, where: dict[str, Any], wanted: ByteRange) -> Iterator[bytes]:
    with s3_errors():
        answer = client.get_object(**where, Range=wanted.http_header())
    with closing(answer["Body"]) as body:
        _check_range(answer, wanted)
        left = wanted.size
        while left:
            with s3_errors():
                piece = body.read(min(left, PIECE_SIZE))
            if not piece:
                raise StoreUnavailable(f"{where['Key']}: the stream ended {left} bytes early")
            yield piece
            left -= len(piece)


def _check_range(answer: dict[str, Any], wanted: ByteRange) -> None:
    header = answer.get("ContentRange")
    if not header:
        raise StoreError("the store ignores ranges")
    try:
        sent, _ = parse_content_range(header)
    except ValueError as error:
        # Seen where a connection breaks within the headers.
        raise StoreUnavailable(str(error)) from error
    if sent.end < wanted.end:
        raise ObjectNotFound(f"ends at byte {sent.end}, before {wanted.end}")
    if sent != wanted:
        raise StoreError(f"the store sent {sent}, asked for {wanted}")
