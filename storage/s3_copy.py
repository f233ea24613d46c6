"""Copy an object inside an S3 store, in parallel parts where it is long."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ai_model_format.byte_range import ByteRange
from storage.interface import ObjectNotFound
from storage.parts import plan_part_size
from storage.s3_client import s3_errors
from storage.settings import S3Settings

PARALLEL_COPIES = 8


def copy_object(client: Any, settings: S3Settings, source: str, target: str, size: int) -> None:
    """Copy ``size`` bytes from one key to another, replacing what lies there.

    Atomic: the target is the old object or the whole new one.

    Raises:
        ObjectNotFound: ``source`` is not there.
    """
    where = {"Bucket": settings.bucket, "Key": settings.prefix + target}
    origin = {"Bucket": settings.bucket, "Key": settings.prefix + source}
    if size <= settings.copy_part_size:
        with s3_errors():
            client.copy_object(**where, CopySource=origin)
        return
    with s3_errors():
        store_id = client.create_multipart_upload(**where)["UploadId"]
    try:
        _copy_parts(client, where | {"UploadId": store_id}, origin, _ranges(settings, size))
    except BaseException:
        _abort_quietly(client, where | {"UploadId": store_id})
        raise


def _ranges(settings: S3Settings, size: int) -> list[ByteRange]:
    step = plan_part_size(size, preferred=settings.copy_part_size)
    return [ByteRange(start, min(start + step, size)) for start in range(0, size, step)]


def _copy_parts(
    client: Any, upload: dict[str, Any], origin: dict[str, str], ranges: list[ByteRange]
) -> None:
    def copy(number: int, span: ByteRange) -> dict[str, Any]:
        answer = client.upload_part_copy(
            **upload, PartNumber=number, CopySource=origin, CopySourceRange=span.http_header()
        )
        return {"PartNumber": number, "ETag": answer["CopyPartResult"]["ETag"]}

    with s3_errors(), ThreadPoolExecutor(PARALLEL_COPIES) as pool:
        parts = list(pool.map(copy, range(1, len(ranges) + 1), ranges))
        client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})


def _abort_quietly(client: Any, upload: dict[str, Any]) -> None:
    try:
        with s3_errors():
            client.abort_multipart_upload(**upload)
    except ObjectNotFound:
        return
