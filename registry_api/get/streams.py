"""Bytes as HTTP answers: ranges, conditions, HEAD, in bounded memory."""

import zlib
from collections.abc import Callable, Iterator, Mapping

from fastapi import Request
from starlette.responses import Response, StreamingResponse

from ai_model_format.byte_range import ByteRange
from registry_api.errors import RangeNotSatisfiable
from registry_api.get.ranges import NoByteInRange, requested_range, tag_matches
from registry_api.problems import problem_response

ReadBytes = Callable[[ByteRange], Iterator[bytes]]


def answer_bytes(
    request: Request,
    read: ReadBytes,
    *,
    size: int,
    etag: str,
    media_type: str,
    headers: Mapping[str, str],
) -> Response:
    """Answer GET or HEAD of ``size`` bytes, whole or the range that is asked for.

    ``read`` is called only when bytes are sent, and streams while the client takes them.
    """
    common = {**headers, "ETag": etag, "Accept-Ranges": "bytes"}
    if tag_matches(request.headers.get("if-none-match"), etag):
        return Response(status_code=304, headers=common)
    try:
        part = _range_of(request, size, etag)
    except NoByteInRange:
        problem = RangeNotSatisfiable(f"there are {size} bytes").problem(
            request.scope.get("request_id", "")
        )
        return problem_response(problem, {"Content-Range": f"bytes */{size}"})
    span = part or ByteRange(0, size)
    common["Content-Length"] = str(span.size)
    if part is not None:
        common["Content-Range"] = f"bytes {span.start}-{span.end - 1}/{size}"
    status = 206 if part is not None else 200
    if request.method == "HEAD" or not span.size:
        return Response(status_code=status, headers=common, media_type=media_type)
    return StreamingResponse(read(span), status, headers=common, media_type=media_type)


def gzipped(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield pieces packed as gzip, fast rather than small."""
    packer = zlib.compressobj(level=1, wbits=31)
    for piece in pieces:
        if packed := packer.compress(piece):
            yield packed
    yield packer.flush()


def accepts_gzip(request: Request) -> bool:
    """Say whether the client takes gzip (RFC 9110, section 12.5.3)."""
    for entry in request.headers.get("accept-encoding", "").lower().split(","):
        coding, _, weight = entry.partition(";")
        if coding.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _range_of(request: Request, size: int, etag: str) -> ByteRange | None:
    if_range = request.headers.get("if-range")
    if if_range is not None and if_range != etag:
        return None
    return requested_range(request.headers.get("range"), size)
