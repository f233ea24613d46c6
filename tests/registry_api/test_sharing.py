"""What a later push need not send, and that knowing a digest is not a right to read it."""

import json
import os

import httpx

from tests.registry_api.conftest import (
    Service,
    begin_manifest,
    make_manifest,
    make_safetensors,
    push_manifest,
    push_plain,
)

BASE = {f"layer.{n}.w": os.urandom(20_000) for n in range(5)}
TUNED = {**BASE, "layer.3.w": os.urandom(20_000)}


def test_a_fine_tune_sends_and_stores_only_what_changed(api: httpx.Client) -> None:
    base, tuned = make_safetensors(**BASE), make_safetensors(**TUNED)
    assert push_manifest(api, "net", "v1", {"m.safetensors": base})[1].json()["created"]
    begun, done = push_manifest(api, "tuned/net", "v1", {"m.safetensors": tuned})
    assert done.json()["state"] == "ready", done.text
    assert begun["bytes_missing"] == 20_000
    info = api.get("/v1/models/tuned/net/versions/v1").json()
    manifest = api.get("/v1/models/tuned/net/versions/v1/manifest").content
    assert info["stored_bytes"] == 20_000 + len(manifest)
    assert api.get("/v1/models/tuned/net/versions/v1/files/m.safetensors").content == tuned
    (file,) = api.get("/v1/models/tuned/net/versions/v1/layout").json()["files"]
    assert len(file["runs"]) == 3
    stitched = api.get(
        "/v1/models/tuned/net/versions/v1/files/m.safetensors",
        headers={"Range": f"bytes=100-{len(tuned) - 100}"},
    )
    assert stitched.content == tuned[100 : len(tuned) - 99]


def test_a_file_that_is_there_needs_no_bytes(api: httpx.Client) -> None:
    weights = make_safetensors(**BASE)
    push_plain(api, "net", "v1", {"m.safetensors": weights})
    begun, done = push_manifest(api, "net", "v2", {"renamed.safetensors": weights, "more": b"new"})
    assert [entry["path"] for entry in begun["missing"]] == ["more"]
    assert done.json()["state"] == "ready", done.text
    assert api.get("/v1/models/net/versions/v2/files/renamed.safetensors").content == weights


def test_a_digest_is_no_right_to_read(service: Service) -> None:
    secret = make_safetensors(**BASE)
    owner = service.client("writer", ["private/*"])
    assert push_manifest(owner, "private/net", "v1", {"m": secret})[1].json()["created"]

    thief = service.client("writer", ["public/*"])
    assert thief.get("/v1/models/private/net").status_code == 403
    begun = begin_manifest(thief, "public/net", "v1", {"m": secret}).json()
    assert begun["bytes_missing"] == len(secret)
    value = make_manifest({"m": secret})
    file = value.files[0]
    begun = thief.post(
        "/v1/models/public/net/pushes",
        json={
            "version": "stolen",
            "files": [{"path": "m", "size": file.size, "sha256": file.sha256}],
        },
    ).json()
    assert begun["missing"] == [{"path": "m", "ranges": [[0, 1]]}]
    contents = [{"path": "m", "first_chunk": 0, "last_chunk": 1}]
    opened = thief.post(
        f"/v1/pushes/{begun['push_id']}/uploads",
        json={"uploads": [{"digest": file.sha256, "size": file.size, "contents": contents}]},
    ).json()["uploads"][0]
    assert opened["state"] == "open"
    refused = thief.post(f"/v1/pushes/{begun['push_id']}/finish")
    assert (refused.status_code, refused.json()["code"]) == (409, "upload_incomplete")

    # Who has the bytes may publish them: they prove it by sending them.
    assert push_manifest(thief, "public/net", "v1", {"m": secret})[1].json()["created"]
    assert thief.get("/v1/models/public/net/versions/v1/files/m").content == secret
    assert owner.get("/v1/models/private/net/versions/v1/files/m").content == secret


def test_a_push_belongs_to_who_began_it(service: Service) -> None:
    mine, other = service.client("writer"), service.client("writer")
    begun = begin_manifest(mine, "net", "v1", {"m": b"bytes"}).json()
    path = f"/v1/pushes/{begun['push_id']}"
    assert [mine.get(path).status_code, other.get(path).status_code] == [200, 404]
    assert other.post(f"{path}/finish").status_code == 404
    assert other.delete(path).status_code == 404


def test_claimed_places_of_known_chunks_are_not_believed(api: httpx.Client) -> None:
    """An upload may name an object that is there, and lie about what lies where in it."""
    first = make_safetensors(**BASE)
    push_manifest(api, "net", "v1", {"m": first})
    wanted = make_safetensors(**{"new.w": os.urandom(len(first) - 80 - 8)})
    manifest = make_manifest({"m": wanted, "n": first})
    pushed = api.post(
        "/v1/models/net/pushes",
        json={"version": "v2", "manifest": json.loads(manifest.to_bytes())},
    ).json()
    file = manifest.files[0]
    upload = {
        "digest": manifest.files[1].sha256,
        "size": len(wanted),
        "contents": [
            {"path": "m", "first_chunk": 0, "last_chunk": 1},
            {"path": "m", "first_chunk": 1, "last_chunk": len(file.chunks)},
        ],
    }
    opened = api.post(f"/v1/pushes/{pushed['push_id']}/uploads", json={"uploads": [upload]})
    assert opened.json()["uploads"][0]["state"] == "stored"
    done = api.post(f"/v1/pushes/{pushed['push_id']}/finish").json()
    assert (done["state"], done["problem"]["code"]) == ("failed", "integrity_failed")
    assert api.get("/v1/models/net/versions/v2").status_code == 404
    again, done = push_manifest(api, "net", "v2", {"m": wanted})
    assert (again["bytes_missing"], done.json()["state"]) == (len(wanted), "ready")
