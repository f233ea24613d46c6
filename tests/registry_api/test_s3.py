"""The same over S3: bytes go straight to the store, in place where nobody else is."""

import uuid
from collections.abc import Callable, Iterator

import httpx
import pytest
from pydantic import SecretStr
from sqlalchemy import Engine

from ai_model_format.digest import digest_of
from registry_api.parts import open_parts
from registry_api.push import verify
from registry_api.settings import Settings
from storage.keys import object_key
from storage.parts import DEFAULT_PART_SIZE
from storage.s3 import S3ObjectStore
from storage.settings import S3Settings
from tests.registry_api.conftest import (
    Service,
    begin_manifest,
    fail_commits,
    make_manifest,
    make_safetensors,
    push_manifest,
    push_plain,
    send,
    serving,
    sha256,
)

WEIGHTS = make_safetensors(**{"encoder.w": b"\1" * 5000, "decoder.w": b"\2" * 9000})


@pytest.fixture
def bucket(s3_settings: Callable[..., S3Settings]) -> S3Settings:
    return s3_settings()


@pytest.fixture
def service(settings: Settings, bucket: S3Settings) -> Iterator[Service]:
    """A running service on S3."""
    on_s3 = {
        "store": "s3",
        "s3_bucket": bucket.bucket,
        "s3_prefix": bucket.prefix,
        "s3_endpoint_url": bucket.endpoint_url,
        "s3_region": bucket.region,
        "s3_access_key_id": bucket.access_key_id,
        "s3_secret_access_key": SecretStr(bucket.secret_access_key or ""),
        "s3_addressing_style": bucket.addressing_style,
        "verify_inline_bytes": 2 * DEFAULT_PART_SIZE,
    }
    with serving(settings.model_copy(update=on_s3)) as running:
        yield running


@pytest.fixture
def store(bucket: S3Settings) -> S3ObjectStore:
    return S3ObjectStore(bucket)


def _read(store: S3ObjectStore, digest: str) -> bytes:
    return b"".join(store.read(digest, 0, store.stat(digest).size))


def upload_of(data: bytes) -> dict:
    contents = [
        {
            "path": "m",
            "first_chunk": 0,
            "last_chunk": len(make_manifest({"m": data}).files[0].chunks),
        }
    ]
    return {"digest": sha256(data), "size": len(data), "contents": contents}


def test_a_file_is_an_object_that_any_s3_tool_can_fetch(
    api: httpx.Client, store: S3ObjectStore
) -> None:
    assert push_manifest(api, "net", "v1", {"m": WEIGHTS})[1].json()["created"]
    key = store.settings.prefix + object_key(sha256(WEIGHTS))
    body = store.client.get_object(Bucket=store.settings.bucket, Key=key)["Body"].read()
    assert body == WEIGHTS
    answer = api.get("/v1/models/net/versions/v1/files/m")
    assert answer.status_code == 307
    assert httpx.get(answer.headers["location"]).content == WEIGHTS
    source = api.get("/v1/models/net/versions/v1/layout").json()["objects"][0]
    part = httpx.get(source["url"], headers={"Range": "bytes=8-99"})
    assert (part.status_code, part.content) == (206, WEIGHTS[8:100])
    tuned = make_safetensors(**{"encoder.w": b"\3" * 5000, "decoder.w": b"\2" * 9000})
    begun, done = push_manifest(api, "net", "v2", {"m": tuned})
    assert (begun["bytes_missing"], done.json()["state"]) == (5000, "ready")
    assert api.get("/v1/models/net/versions/v2/files/m").content == tuned


def test_bad_bytes_do_not_stay_at_the_objects_key(api: httpx.Client, store: S3ObjectStore) -> None:
    """In several parts, where the store's own checksum of a PUT does not help."""
    data = b"\1" * (DEFAULT_PART_SIZE + 1000)
    begun = begin_manifest(api, "net", "v1", {"m": data}).json()
    send(api, begun, [upload_of(data)], {sha256(data): b"\0" * len(data)})
    done = api.post(f"/v1/pushes/{begun['push_id']}/finish").json()
    assert (done["state"], done["problem"]["code"]) == ("failed", "integrity_failed")
    assert [found.digest for found in store.list()] == []
    assert push_manifest(api, "net", "v1", {"m": data})[1].json()["created"]
    assert [found.size for found in store.list() if found.digest == sha256(data)] == [len(data)]


def test_uploads_that_are_not_committed_leave_nothing_open(
    api: httpx.Client, store: S3ObjectStore, engine: Engine
) -> None:
    fail_commits(engine, "upload")
    data = b"\1" * (DEFAULT_PART_SIZE + 1)
    begun = begin_manifest(api, "net", "v1", {"m": data}).json()
    path = f"/v1/pushes/{begun['push_id']}/uploads"
    assert api.post(path, json={"uploads": [upload_of(data)]}).status_code == 500
    assert list(store.list_uploads()) == []


def test_an_upload_at_a_manifests_key_cannot_spoil_it(
    api: httpx.Client, service: Service, store: S3ObjectStore
) -> None:
    """The digest of a manifest to come can be known, and claimed for other bytes."""
    manifest = make_manifest({"m": WEIGHTS})
    claimed = digest_of(manifest.to_bytes())
    files = {name: name.encode() * DEFAULT_PART_SIZE for name in "abc"}
    attack = begin_manifest(api, "attack", "v1", files).json()
    contents = [{"path": path, "first_chunk": 0, "last_chunk": 1} for path in files]
    bad = b"".join(files.values())
    upload = {"digest": claimed, "size": len(bad), "contents": contents}
    send(api, attack, [upload], {claimed: bad})
    assert api.post(f"/v1/pushes/{attack['push_id']}/finish").json()["state"] == "verifying"
    assert store.stat(claimed).size == len(bad)

    assert push_manifest(api, "net", "v1", {"m": WEIGHTS})[1].json()["created"]
    assert api.get("/v1/models/net/versions/v1/manifest").status_code == 200
    assert _read(store, claimed) == manifest.to_bytes()
    parts = open_parts(service.settings)
    verify.run(parts, uuid.UUID(attack["push_id"]))
    parts.close()
    assert api.get(f"/v1/pushes/{attack['push_id']}").json()["state"] == "failed"
    assert _read(store, claimed) == manifest.to_bytes()


def test_an_upload_that_lost_its_place_is_begun_again(api: httpx.Client) -> None:
    slow = begin_manifest(api, "net", "slow", {"m": WEIGHTS}).json()
    send(api, slow, [upload_of(WEIGHTS)], {sha256(WEIGHTS): WEIGHTS})
    assert push_plain(api, "net", "quick", {"m": WEIGHTS}).json()["created"]
    lost = api.post(f"/v1/pushes/{slow['push_id']}/finish")
    assert (lost.status_code, lost.json()["code"]) == (409, "upload_conflict")
    again = api.post(
        f"/v1/pushes/{slow['push_id']}/uploads", json={"uploads": [upload_of(WEIGHTS)]}
    ).json()
    assert again["uploads"][0]["state"] == "stored"
    assert api.post(f"/v1/pushes/{slow['push_id']}/finish").json()["created"]
    for version in ("slow", "quick"):
        location = api.get(f"/v1/models/net/versions/{version}/files/m").headers["location"]
        assert httpx.get(location).content == WEIGHTS


def test_a_dropped_push_never_takes_a_published_object_along(api: httpx.Client) -> None:
    slow = begin_manifest(api, "net", "slow", {"m": WEIGHTS}).json()
    send(api, slow, [upload_of(WEIGHTS)], {sha256(WEIGHTS): WEIGHTS})
    assert push_plain(api, "net", "quick", {"m": WEIGHTS}).json()["created"]
    assert api.delete(f"/v1/pushes/{slow['push_id']}").status_code == 204
    location = api.get("/v1/models/net/versions/quick/files/m").headers["location"]
    assert httpx.get(location).content == WEIGHTS
