"""The S3 client made from settings, and its errors as the store's.

Must not know what an object or an upload is. Reads no environment itself; only where no
keys are given does botocore look for them where AWS puts them (instance roles and the like).
"""

import base64
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    IncompleteReadError,
)
from botocore.exceptions import (
    ConnectionError as BotoConnectionError,
)

from storage.interface import ObjectNotFound, StoreError, StoreFull, StoreUnavailable
from storage.settings import S3Settings

_MISSING = {"404", "NoSuchKey", "NoSuchUpload", "NotFound", "InvalidRange"}
_FULL = {
    "InsufficientStorage",
    "QuotaExceeded",
    "XMinioAdminBucketQuotaExceeded",
    "XMinioStorageFull",
}
_LATER = {
    "ConditionalRequestConflict",
    "InternalError",
    "NoSuchBucket",
    "OperationAborted",
    "RequestTimeout",
    "SlowDown",
    "Throttling",
    "TooManyRequests",
}


def make_client(settings: S3Settings, endpoint_url: str | None) -> Any:
    """Make a client, which threads may share (making it is not safe, so each has a session)."""
    client = boto3.session.Session().client(
        "s3",
        endpoint_url=endpoint_url,
        region_name=settings.region,
        aws_access_key_id=settings.access_key_id,
        aws_secret_access_key=settings.secret_access_key,
        aws_session_token=settings.session_token,
        config=_config(settings),
    )
    client.meta.events.register("before-call.s3.DeleteObjects", _use_content_md5)
    return client


def _config(settings: S3Settings) -> Config:
    return Config(
        signature_version="s3v4",
        s3={"addressing_style": settings.addressing_style},
        # Stores older than 2025 fail on the checksums that botocore adds by default.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        retries={"mode": "standard", "total_max_attempts": settings.max_attempts},
        connect_timeout=settings.connect_timeout_s,
        read_timeout=settings.read_timeout_s,
        max_pool_connections=settings.pool_size,
        tcp_keepalive=True,
    )


def _use_content_md5(params: dict[str, Any], **_: Any) -> None:
    """Send the checksum of a batch delete in the one form that every store takes."""
    digest = hashlib.md5(params["body"], usedforsecurity=False).digest()
    params["headers"]["Content-MD5"] = base64.b64encode(digest).decode()
    params["context"].pop("checksum", None)


@contextmanager
def s3_errors() -> Iterator[None]:
    """Turn what botocore raises into what a store raises."""
    try:
        yield
    except ClientError as error:
        raise _store_error(error) from error
    except (BotoConnectionError, HTTPClientError, IncompleteReadError) as error:
        raise StoreUnavailable(str(error)) from error
    except BotoCoreError as error:
        raise StoreError(str(error)) from error


def status_of(error: ClientError) -> int:
    """Return the HTTP status of an answer."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def error_of_code(code: str, message: str, *, status: int = 0) -> StoreError:
    """Return the error that an S3 code means."""
    if code in _FULL or status == 507:
        return StoreFull(message)
    if code in _LATER or status >= 500 or status == 429:
        return StoreUnavailable(message)
    if code in _MISSING:
        return ObjectNotFound(message)
    return StoreError(message)


def _store_error(error: ClientError) -> StoreError:
    code = str(error.response.get("Error", {}).get("Code", ""))
    return error_of_code(code, str(error), status=status_of(error))
