"""Pushes over HTTP."""

import asyncio
import time
import uuid
from collections.abc import Iterator
from functools import partial
from typing import Annotated

import anyio.from_thread
from anyio import CapacityLimiter, fail_after, to_thread
from anyio.lowlevel import RunVar
from fastapi import APIRouter, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from ai_model_format.wire import (
    ModelId,
    PushInfo,
    PushRequest,
    TargetList,
    TargetsRequest,
    UploadList,
    UploadsRequest,
)
from registry_api.access import Caller
from registry_api.db.session import transaction
from registry_api.errors import InvalidRequest
from registry_api.parts import Parts
from registry_api.problems import responses
from registry_api.push import finish, service, uploads
from registry_api.requests import AnyWriter, DbSession, PartsOf, StrictRoute, Writer, base_url
from storage.interface import Upload, UploadIncomplete

MIN_POLL_S = 0.02
MAX_POLL_S = 0.5
PIECE_SIZE = 1024 * 1024
PIECE_TIMEOUT_S = 120
"""For a client to send a piece: slower ones would hold a lane for hours."""
PART_LANES = 64
"""Parts that a process takes at once, each in a thread that mostly waits for its client."""

_part_lanes = RunVar[CapacityLimiter]("_part_lanes")

router = APIRouter(prefix="/v1", route_class=StrictRoute, tags=["push"])


@router.post(
    "/models/{model_id:model_id}/pushes",
    status_code=201,
    responses={
        200: {"model": PushInfo, "description": "The same push, or a version that was there"},
        **responses(401, 403, 409, 413, 422),
    },
)
def begin_push(
    model_id: ModelId,
    body: PushRequest,
    response: Response,
    parts: PartsOf,
    session: DbSession,
    caller: Writer,
) -> PushInfo:
    """Begin to push a version, or find the same push again."""
    info, is_new = service.begin(session, parts, caller, model_id, body)
    if not is_new:
        response.status_code = 200
    return info


@router.get("/pushes/{push_id}", responses=responses(401, 403, 404, 422))
async def get_push(
    push_id: uuid.UUID,
    parts: PartsOf,
    caller: AnyWriter,
    wait_s: Annotated[float, Query(ge=0, le=30)] = 0,
) -> PushInfo:
    """Return how far a push is; ``wait_s`` holds the answer while it is verified."""
    began = time.monotonic()
    while True:
        info = await run_in_threadpool(_show, parts, caller, push_id)
        waited_s = time.monotonic() - began
        if info.state != "verifying" or waited_s >= wait_s:
            return info
        # Told late by a tenth of what it took: most pushes are verified in a blink.
        pause_s = min(max(MIN_POLL_S, waited_s / 10), MAX_POLL_S)
        await asyncio.sleep(min(pause_s, wait_s - waited_s))


@router.post("/pushes/{push_id}/uploads", responses=responses(401, 403, 404, 409, 413, 422, 507))
def open_uploads(
    push_id: uuid.UUID,
    body: UploadsRequest,
    request: Request,
    parts: PartsOf,
    session: DbSession,
    caller: AnyWriter,
) -> UploadList:
    """Open uploads, or find them again with the parts that have arrived."""
    return uploads.open_uploads(
        session, parts, caller, push_id, body, base_url=base_url(request, parts)
    )


@router.post(
    "/pushes/{push_id}/uploads/{upload_id}/targets", responses=responses(401, 403, 404, 409, 422)
)
def get_targets(
    push_id: uuid.UUID,
    upload_id: uuid.UUID,
    body: TargetsRequest,
    request: Request,
    parts: PartsOf,
    session: DbSession,
    caller: AnyWriter,
) -> TargetList:
    """Return new URLs for parts."""
    return uploads.more_targets(
        session,
        parts,
        caller,
        push_id,
        upload_id,
        body.part_numbers,
        base_url=base_url(request, parts),
    )


@router.post(
    "/pushes/{push_id}/finish",
    responses={
        202: {"model": PushInfo, "description": "The push is being verified"},
        **responses(401, 403, 404, 409, 422),
    },
)
def finish_push(
    push_id: uuid.UUID, response: Response, parts: PartsOf, caller: AnyWriter
) -> PushInfo:
    """Say that everything was uploaded; may be sent again."""
    info = finish.finish(parts, caller, push_id)
    if info.state == "verifying":
        response.status_code = 202
    return info


@router.delete("/pushes/{push_id}", status_code=204, responses=responses(401, 403, 404, 409, 422))
def drop_push(push_id: uuid.UUID, parts: PartsOf, session: DbSession, caller: AnyWriter) -> None:
    """Drop a push and what was uploaded for it."""
    service.drop(session, parts, caller, push_id)


@router.put(
    "/uploads/{upload_id}/parts/{part_number}",
    status_code=204,
    openapi_extra={"requestBody": {"content": {"application/octet-stream": {}}}},
    responses=responses(403, 404, 409, 422, 507),
)
async def put_part(
    upload_id: uuid.UUID,
    part_number: Annotated[int, Path(ge=1, le=10_000)],
    request: Request,
    parts: PartsOf,
    expires: Annotated[int, Query(ge=0, le=2**53)],
    signature: Annotated[str, Query(pattern=r"^[0-9a-f]{64}$")],
) -> Response:
    """Take a part of an upload for the local store; the URL is signed, so no token is needed."""
    path = f"/v1/uploads/{upload_id}/parts/{part_number}"
    parts.signer.check("PUT", path, expires=expires, signature=signature)
    if request.headers.get("content-encoding", "identity") != "identity":
        raise InvalidRequest("parts are sent as they are, without Content-Encoding")
    upload = await run_in_threadpool(_writable, parts, upload_id, part_number)
    write = partial(parts.store.write_part, upload, part_number, _pieces(request))
    try:
        await to_thread.run_sync(write, limiter=_lanes())
    except UploadIncomplete as error:
        start, end = upload.part_range(part_number)
        raise InvalidRequest(f"part {part_number} has {end - start} bytes, not these") from error
    except ClientDisconnect:
        return Response(status_code=400)  # to nobody
    except TimeoutError:
        return Response(status_code=408, headers={"Connection": "close"})
    return Response(status_code=204)


def _show(parts: Parts, caller: Caller, push_id: uuid.UUID) -> PushInfo:
    with transaction(parts.engine) as session:
        return service.show(session, parts, caller, push_id)


def _writable(parts: Parts, upload_id: uuid.UUID, part_number: int) -> Upload:
    with transaction(parts.engine) as session:
        return uploads.writable_part(session, upload_id, part_number)


def _lanes() -> CapacityLimiter:
    """Return what bounds the threads for parts, which are none of those that handlers run in."""
    try:
        return _part_lanes.get()
    except LookupError:
        limiter = CapacityLimiter(PART_LANES)
        _part_lanes.set(limiter)
        return limiter


def _pieces(request: Request) -> Iterator[bytes]:
    """Yield the body to a thread as it came, about 1 MiB asked for at once when it is needed.

    Raises:
        TimeoutError: the client took too long over that.
    """
    stream = request.stream()

    async def next_pieces() -> list[bytes]:
        gathered: list[bytes] = []
        size = 0
        with fail_after(PIECE_TIMEOUT_S):
            async for data in stream:
                gathered.append(data)
                size += len(data)
                if size >= PIECE_SIZE:
                    break
        return gathered  # joined, they would be copied while all other requests wait

    while pieces := anyio.from_thread.run(next_pieces):
        yield from pieces
