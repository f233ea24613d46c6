"""Manifests, layouts and bytes over HTTP."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response, StreamingResponse

from ai_model_format.byte_range import ByteRange
from ai_model_format.digest import Digest, digest_of
from ai_model_format.manifest import MEDIA_TYPE
from ai_model_format.wire import DigestText, FilePath, LayoutInfo, ModelId, Ref
from registry_api.catalog import resolve
from registry_api.get import service
from registry_api.get.bodies import Made
from registry_api.get.ranges import tag_matches
from registry_api.get.streams import accepts_gzip, answer_bytes, gzipped
from registry_api.parts import Parts
from registry_api.problems import responses
from registry_api.quick import QuickRoute
from registry_api.requests import DbSession, PartsOf, Read, Reader, StrictRoute, base_url, edge_for

FOR_EVER = "public, max-age=31536000, immutable"
PRIVATE_FOR_EVER = "private, max-age=31536000, immutable"
PRIVATE_ASK_AGAIN = "private, no-cache"
PACKED_FROM = 1024
AT_ONCE = 1024 * 1024
"""Up to this size a manifest is read in one stay in a thread, and kept for those who ask next."""

router = APIRouter(prefix="/v1", route_class=StrictRoute, tags=["get"])
quick = APIRouter(prefix="/v1", route_class=QuickRoute, tags=["get"])

_BYTES: dict[int | str, dict[str, Any]] = {
    200: {"description": "The bytes", "content": {"application/octet-stream": {}}},
    206: {"description": "The range asked for", "content": {"application/octet-stream": {}}},
    304: {"description": "The ETag that the client holds is the right one"},
}


@quick.get(
    "/models/{model_id:model_id}/versions/{ref}/manifest",
    response_class=Response,
    responses={
        200: {"description": "The canonical manifest", "content": {MEDIA_TYPE: {}}},
        304: {"description": "The client holds it"},
        **responses(401, 403, 404, 422),
    },
)
async def get_manifest(
    model_id: ModelId, ref: Ref, request: Request, parts: PartsOf, read: Read, caller: Reader
) -> Response:
    """Return the manifest as it is stored, byte by byte; its digest is the ETag."""
    found = await read.version(resolve.stored_manifest, model_id, ref)
    digest, size = found.digest, found.size
    is_fixed = ref in (found.name, digest)
    headers = {
        "ETag": f'"{digest}"',
        "Cache-Control": PRIVATE_FOR_EVER if is_fixed else PRIVATE_ASK_AGAIN,
        "Vary": "Accept-Encoding, Authorization",
    }
    if tag_matches(request.headers.get("if-none-match"), headers["ETag"]):
        return Response(status_code=304, headers=headers)
    packed = size >= PACKED_FROM and accepts_gzip(request)
    headers |= {"Content-Encoding": "gzip"} if packed else {"Content-Length": str(size)}
    if size > AT_ONCE:
        stored = parts.store.read(digest, 0, size)
        pieces = gzipped(stored) if packed else stored
        return StreamingResponse(pieces, headers=headers, media_type=MEDIA_TYPE)
    body = await parts.manifests.ask(
        (digest, packed), lambda: run_in_threadpool(_body, parts, digest, size, packed)
    )
    return Response(body, headers=headers, media_type=MEDIA_TYPE)


def _body(parts: Parts, digest: Digest, size: int, packed: bool) -> Made:
    """Return a manifest as it is sent, and whether it is what its digest says."""
    data = b"".join(parts.store.read(digest, 0, size))
    return b"".join(gzipped(iter((data,)))) if packed else data, digest_of(data) == digest


@quick.get(
    "/models/{model_id:model_id}/versions/{ref}/layout",
    response_model=LayoutInfo,
    responses=responses(401, 403, 404, 422),
)
async def get_layout(
    model_id: ModelId, ref: Ref, request: Request, parts: PartsOf, read: Read, caller: Reader
) -> Response:
    """Return where the version's bytes lie now, with URLs that need no token."""
    data = await read.by_driver(
        service.layout_json,
        parts,
        model_id,
        ref,
        base_url=base_url(request, parts),
        edge=edge_for(request, parts),
    )
    return Response(data, headers={"Cache-Control": "no-store"}, media_type="application/json")


@router.head(
    "/models/{model_id:model_id}/versions/{ref}/files/{path:path}", include_in_schema=False
)
@router.get(
    "/models/{model_id:model_id}/versions/{ref}/files/{path:path}",
    response_class=Response,
    responses={
        **_BYTES,
        307: {"description": "To the object that is this file"},
        **responses(401, 403, 404, 416, 422),
    },
)
def get_file(
    model_id: ModelId,
    ref: Ref,
    path: FilePath,
    request: Request,
    parts: PartsOf,
    session: DbSession,
    caller: Reader,
) -> Response:
    """Return a file of a version, put together from where its bytes lie."""
    file = service.find_file(session, service.find_version(session, model_id, ref), path)
    if file.single_object and request.method == "GET":
        lasts_s = parts.settings.url_expires_s
        url = parts.store.object_url(file.single_object, expires_in_s=lasts_s)
        if url is not None:
            return RedirectResponse(url, 307, headers={"Cache-Control": "no-store"})

    return answer_bytes(
        request,
        lambda span: service.read_file(parts, file, span),
        size=file.size,
        etag=f'"{file.sha256}"',
        media_type=file.media_type,
        headers={"Cache-Control": PRIVATE_ASK_AGAIN, "X-Content-Type-Options": "nosniff"},
    )


@router.head("/objects/{digest}", include_in_schema=False)
@router.get(
    "/objects/{digest}",
    response_class=Response,
    responses={**_BYTES, **responses(403, 404, 416, 422)},
)
def get_object(
    digest: DigestText,
    request: Request,
    parts: PartsOf,
    expires: Annotated[int, Query(ge=0, le=2**53)],
    signature: Annotated[str, Query(pattern=r"^[0-9a-f]{64}$")],
) -> Response:
    """Return an object of the local store; the URL is signed, so no token is needed."""
    parts.signer.check("GET", f"/v1/objects/{digest}", expires=expires, signature=signature)
    size = parts.store.stat(digest).size

    def read(span: ByteRange) -> Any:
        return parts.store.read(digest, span.start, span.end)

    return answer_bytes(
        request,
        read,
        size=size,
        etag=f'"{digest}"',
        media_type="application/octet-stream",
        headers={"Cache-Control": FOR_EVER, "X-Content-Type-Options": "nosniff"},
    )
