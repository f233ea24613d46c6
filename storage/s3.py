"""Objects in an S3 bucket: AWS, MinIO, SeaweedFS, Ceph.

Clients send parts to the store and fetch objects from it by signed URLs. An upload of
one part is a plain PUT, a longer one a multipart upload, which any process can complete
because the store itself lists the parts. An upload in place gathers at the object's own
key; another under ``uploads/`` and is copied inside the store when published.

What S3 cannot say: an upload of one part exists only once its PUT has arrived, so after
``abort`` it looks like one that was never sent. A part that is PUT again after it has
arrived is answered with 412, which means that it is there.
"""

import base64
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import Any

from botocore.exceptions import ClientError

from ai_model_format.digest import Digest, raw_of
from storage.interface import (
    ObjectNotFound,
    SignedRequest,
    StoredObject,
    StoreError,
    StoreUnavailable,
    Upload,
    UploadIncomplete,
)
from storage.keys import (
    OBJECTS,
    UPLOADS,
    is_upload_key,
    new_upload_key,
    object_key,
    parse_object_key,
)
from storage.parts import plan_part_size
from storage.s3_client import error_of_code, make_client, s3_errors, status_of
from storage.s3_copy import copy_object
from storage.s3_read import read_range
from storage.settings import S3Settings

__all__ = ["S3ObjectStore", "S3Settings"]

DELETE_BATCH = 1000


class S3ObjectStore:
    """An ``ObjectStore`` in a bucket.

    Attributes:
        settings: what it was made from.
        client: the client of the service's side, shared by all threads.
    """

    def __init__(self, settings: S3Settings) -> None:
        self.settings = settings
        self.client = make_client(settings, settings.endpoint_url)
        public = settings.public_endpoint_url
        self._signer = make_client(settings, public) if public else self.client

    def close(self) -> None:
        """Close the connections."""
        self.client.close()
        self._signer.close()

    def ensure_bucket(self) -> None:
        """Make the bucket if it is not there; for embedded use and development."""
        with s3_errors():
            try:
                self.client.head_bucket(Bucket=self.settings.bucket)
            except ClientError as error:
                if status_of(error) != 404:
                    raise
                self._create_bucket()

    def stat(self, digest: Digest) -> StoredObject:
        """See ``ObjectStore.stat``."""
        found = self._head(object_key(digest))
        return StoredObject(digest, found["ContentLength"], found["LastModified"])

    def read(self, digest: Digest, start: int, end: int) -> Iterator[bytes]:
        """See ``ObjectStore.read``; errors rise with the first piece."""
        return self._read(object_key(digest), start, end)

    def put(self, digest: Digest, data: bytes) -> None:
        """See ``ObjectStore.put``."""
        with s3_errors():
            self.client.put_object(
                **self._at(object_key(digest)), Body=data, **self._sha256(digest)
            )

    def delete(self, digests: Iterable[Digest]) -> None:
        """See ``ObjectStore.delete``."""
        keys = map(object_key, digests)
        while batch := list(islice(keys, DELETE_BATCH)):
            objects = [{"Key": self.settings.prefix + key} for key in batch]
            with s3_errors():
                answer = self.client.delete_objects(
                    Bucket=self.settings.bucket, Delete={"Objects": objects, "Quiet": True}
                )
            for failed in answer.get("Errors", []):
                code = failed.get("Code", "")
                if code != "NoSuchKey":
                    raise error_of_code(code, f"{failed.get('Key')}: {code}")

    def list(self) -> Iterator[StoredObject]:
        """See ``ObjectStore.list``."""
        for key, found in self._list_keys(OBJECTS):
            digest = parse_object_key(key)
            if digest:
                yield StoredObject(digest, found["Size"], found["LastModified"])

    def begin_upload(self, digest: Digest, size: int, *, in_place: bool) -> Upload:
        """See ``ObjectStore.begin_upload``; gathers elsewhere if bytes lie at the object's key."""
        part_size = plan_part_size(size, preferred=self.settings.part_size)
        in_place = in_place and not self._exists(object_key(digest))
        key = object_key(digest) if in_place else new_upload_key()
        store_id = ""
        if size > part_size:
            with s3_errors():
                store_id = self.client.create_multipart_upload(**self._at(key))["UploadId"]
        return Upload(digest, size, part_size, key, store_id, in_place)

    def parts_stored(self, upload: Upload) -> dict[int, int]:
        """See ``ObjectStore.parts_stored``."""
        if not upload.store_id:
            try:
                return {1: self._head(upload.key)["ContentLength"]}
            except ObjectNotFound:
                return {}
        try:
            return {number: part["Size"] for number, part in self._list_parts(upload).items()}
        except ObjectNotFound:
            if not self._is_completed(upload):
                raise
            return {n: _part_length(upload, n) for n in range(1, upload.part_count + 1)}

    def part_target(
        self, upload: Upload, part_number: int, *, expires_in_s: int
    ) -> SignedRequest | None:
        """See ``ObjectStore.part_target``; the length of the part is signed too."""
        if not 1 <= part_number <= upload.part_count:
            raise UploadIncomplete([part_number])
        params = {**self._at(upload.key), "ContentLength": _part_length(upload, part_number)}
        if upload.store_id:
            params |= {"UploadId": upload.store_id, "PartNumber": part_number}
            return SignedRequest(self._sign("upload_part", params, expires_in_s))
        headers: dict[str, str] = {}
        if self.settings.conditional_writes:
            headers["If-None-Match"] = params["IfNoneMatch"] = "*"
        for name, value in self._sha256(upload.digest).items():
            headers["x-amz-checksum-sha256"] = params[name] = value
        return SignedRequest(self._sign("put_object", params, expires_in_s), headers)

    def write_part(self, upload: Upload, part_number: int, data: Iterable[bytes]) -> None:
        """Refuse: parts go straight to the store."""
        raise NotImplementedError("parts go straight to S3")

    def complete(self, upload: Upload) -> None:
        """See ``ObjectStore.complete``."""
        if not upload.store_id:
            if self.parts_stored(upload) != {1: upload.size}:
                raise UploadIncomplete([1])
            return
        try:
            self._complete_multipart(upload, self._list_parts(upload))
        except ObjectNotFound:
            # Completed before, perhaps by a request whose answer was lost.
            if not self._is_completed(upload):
                raise

    def read_upload(self, upload: Upload, start: int, end: int) -> Iterator[bytes]:
        """See ``ObjectStore.read_upload``; errors rise with the first piece."""
        return self._read(upload.key, start, end)

    def publish(self, upload: Upload) -> None:
        """See ``ObjectStore.publish``."""
        target = object_key(upload.digest)
        if upload.key == target or not self._exists(upload.key):
            if not self._is_stored(target, upload.size):
                raise ObjectNotFound(upload.key)
            return
        copy_object(self.client, self.settings, upload.key, target, upload.size)
        with s3_errors():
            self.client.delete_object(**self._at(upload.key))

    def abort(self, upload: Upload) -> None:
        """See ``ObjectStore.abort``."""
        if upload.store_id:
            self._abort_multipart(upload.key, upload.store_id)
        with s3_errors():
            self.client.delete_object(**self._at(upload.key))

    def abandon(self, upload: Upload) -> None:
        """See ``ObjectStore.abandon``."""
        if upload.store_id:
            self._abort_multipart(upload.key, upload.store_id)
        elif is_upload_key(upload.key):
            with s3_errors():
                self.client.delete_object(**self._at(upload.key))

    def list_uploads(self) -> Iterator[tuple[str, datetime]]:
        """See ``ObjectStore.list_uploads``."""
        for key, found in self._list_multiparts(""):
            yield key, found["Initiated"]
        for key, found in self._list_keys(UPLOADS):
            yield key, found["LastModified"]

    def abort_key(self, key: str) -> None:
        """See ``ObjectStore.abort_key``; what is completed at an object's key stays."""
        for found_key, found in self._list_multiparts(key):
            if found_key == key:
                self._abort_multipart(key, found["UploadId"])
        if is_upload_key(key):
            with s3_errors():
                self.client.delete_object(**self._at(key))

    def object_url(self, digest: Digest, *, expires_in_s: int) -> str | None:
        """See ``ObjectStore.object_url``."""
        return self._sign("get_object", self._at(object_key(digest)), expires_in_s)

    def check(self) -> None:
        """See ``ObjectStore.check``."""
        try:
            with s3_errors():
                self.client.head_bucket(Bucket=self.settings.bucket)
        except StoreError as error:
            raise StoreUnavailable(str(error)) from error

    def _at(self, key: str) -> dict[str, Any]:
        return {"Bucket": self.settings.bucket, "Key": self.settings.prefix + key}

    def _sha256(self, digest: Digest) -> dict[str, str]:
        if not self.settings.sha256_on_put:
            return {}
        return {"ChecksumSHA256": base64.b64encode(raw_of(digest)).decode()}

    def _sign(self, operation: str, params: dict[str, Any], expires_in_s: int) -> str:
        with s3_errors():
            return str(
                self._signer.generate_presigned_url(
                    operation, Params=params, ExpiresIn=expires_in_s
                )
            )

    def _create_bucket(self) -> None:
        place = {"LocationConstraint": self.settings.region}
        where = {} if self.settings.region == "us-east-1" else {"CreateBucketConfiguration": place}
        try:
            self.client.create_bucket(Bucket=self.settings.bucket, **where)
        except ClientError as error:
            if status_of(error) != 409:
                raise

    def _head(self, key: str) -> dict[str, Any]:
        with s3_errors():
            return dict(self.client.head_object(**self._at(key)))

    def _exists(self, key: str) -> bool:
        try:
            self._head(key)
        except ObjectNotFound:
            return False
        return True

    def _is_stored(self, key: str, size: int) -> bool:
        try:
            return bool(self._head(key)["ContentLength"] == size)
        except ObjectNotFound:
            return False

    def _is_completed(self, upload: Upload) -> bool:
        return self._is_stored(upload.key, upload.size)

    def _read(self, key: str, start: int, end: int) -> Iterator[bytes]:
        return read_range(self.client, self._at(key), start, end)

    def _list_parts(self, upload: Upload) -> dict[int, dict[str, Any]]:
        pages = self.client.get_paginator("list_parts").paginate(
            **self._at(upload.key),
            UploadId=upload.store_id,
            PaginationConfig={"PageSize": self.settings.page_size},
        )
        with s3_errors():
            return _choose_parts(upload, (part for page in pages for part in page.get("Parts", [])))

    def _complete_multipart(self, upload: Upload, parts: dict[int, dict[str, Any]]) -> None:
        sizes = {number: part["Size"] for number, part in parts.items()}
        numbers = range(1, upload.part_count + 1)
        wrong = [n for n in numbers if sizes.get(n) != _part_length(upload, n)]
        if wrong:
            raise UploadIncomplete(wrong)
        listed = [{"PartNumber": n, "ETag": parts[n]["ETag"]} for n in numbers]
        with s3_errors():
            self.client.complete_multipart_upload(
                **self._at(upload.key),
                UploadId=upload.store_id,
                MultipartUpload={"Parts": listed},
            )

    def _abort_multipart(self, key: str, store_id: str) -> None:
        try:
            with s3_errors():
                self.client.abort_multipart_upload(**self._at(key), UploadId=store_id)
        except ObjectNotFound:
            return

    def _list_keys(self, prefix: str) -> Iterator[tuple[str, dict[str, Any]]]:
        return self._list("list_objects_v2", "Contents", prefix)

    def _list_multiparts(self, prefix: str) -> Iterator[tuple[str, dict[str, Any]]]:
        return self._list("list_multipart_uploads", "Uploads", prefix)

    def _list(self, operation: str, items: str, prefix: str) -> Iterator[tuple[str, Any]]:
        pages = self.client.get_paginator(operation).paginate(
            Bucket=self.settings.bucket,
            Prefix=self.settings.prefix + prefix,
            PaginationConfig={"PageSize": self.settings.page_size},
        )
        with s3_errors():
            for page in pages:
                for found in page.get(items, []):
                    yield found["Key"].removeprefix(self.settings.prefix), found


def _choose_parts(upload: Upload, listed: Iterable[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Return one part for each number.

    SeaweedFS lists a part that was sent twice twice, in no order and dated by whole seconds:
    one of the right size counts before others, then the latest. Where a page of the listing
    ends between the two, only one is seen; should they differ, verifying finds it.
    """
    parts: dict[int, dict[str, Any]] = {}
    for part in listed:
        number = part["PartNumber"]
        length = _part_length(upload, number)
        parts[number] = max(
            (parts.get(number, part), part),
            key=lambda one: (one["Size"] == length, one["LastModified"]),
        )
    return parts


def _part_length(upload: Upload, part_number: int) -> int:
    start, end = upload.part_range(part_number)
    return end - start
