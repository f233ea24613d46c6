"""Settings of the stores, as plain values; whoever opens a store decides where they come from."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from storage.parts import DEFAULT_PART_SIZE, MIB


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """Where a local store lies.

    Attributes:
        root: a directory of its own; made when missing.
        part_size: bytes of a part, where the size of the object does not demand more.
        keep_free: bytes of the disk that uploads leave alone.
    """

    root: Path
    part_size: int = DEFAULT_PART_SIZE
    keep_free: int = 64 * MIB


@dataclass(frozen=True, slots=True)
class S3Settings:
    """How to reach a bucket.

    Attributes:
        bucket: must exist, or be made by ``S3ObjectStore.ensure_bucket``.
        prefix: before every key, with its slash at the end.
        endpoint_url: where the service reaches the store; ``None`` is AWS.
        public_endpoint_url: where clients reach it; ``None`` is the same place. Signed URLs
            name this host.
        region: as in signatures.
        access_key_id: ``None`` leaves finding keys to botocore.
        secret_access_key: likewise.
        session_token: likewise.
        addressing_style: bucket in the host name (``virtual``) or in the ``path``.
        part_size: bytes of a part where the object's size does not demand more; objects up to
            this size go up in one PUT. Most stores refuse parts under 5 MiB.
        copy_part_size: bytes that one request may copy inside the store (AWS: up to 5 GiB).
        conditional_writes: the store knows ``If-None-Match: *`` on PUT.
        sha256_on_put: send ``x-amz-checksum-sha256``, so that a store that knows it refuses
            other bytes; others ignore it.
        page_size: keys or parts per answer of a listing; at most 1000.
        connect_timeout_s: seconds to reach the store.
        read_timeout_s: seconds without a byte.
        max_attempts: tries of one request, the first included.
        pool_size: connections kept open.
    """

    bucket: str
    prefix: str = ""
    endpoint_url: str | None = None
    public_endpoint_url: str | None = None
    region: str = "us-east-1"
    access_key_id: str | None = None
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    addressing_style: Literal["auto", "virtual", "path"] = "auto"
    part_size: int = DEFAULT_PART_SIZE
    copy_part_size: int = 512 * MIB
    conditional_writes: bool = True
    sha256_on_put: bool = True
    page_size: int = 1000
    connect_timeout_s: float = 5
    read_timeout_s: float = 60
    max_attempts: int = 5
    pool_size: int = 32
