"""The service believes only what it has hashed; a push that lies leaves nothing behind."""

import os
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine, text

from ai_model_format.manifest import Chunk, Manifest
from tests.registry_api.conftest import (
    begin_manifest,
    fail_commits,
    make_manifest,
    make_safetensors,
    push_manifest,
    send,
    sha256,
)


def _stored(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


@pytest.mark.parametrize("flipped", [5, 40_000])
def test_one_flipped_byte_fails_the_push(
    api: httpx.Client, tmp_path: Path, engine: Engine, flipped: int
) -> None:
    tensors = {"encoder.w": os.urandom(30_000), "decoder.w": os.urandom(30_000)}
    weights = make_safetensors(**tensors)
    manifest = make_manifest({"m": weights})
    begun = begin_manifest(api, "net", "v1", {"m": weights}).json()
    bad = bytearray(weights)
    bad[flipped] ^= 1
    contents = [{"path": "m", "first_chunk": 0, "last_chunk": len(manifest.files[0].chunks)}]
    upload = {"digest": sha256(weights), "size": len(weights), "contents": contents}
    for target in api.post(
        f"/v1/pushes/{begun['push_id']}/uploads", json={"uploads": [upload]}
    ).json()["uploads"][0]["targets"]:
        assert httpx.put(target["url"], content=bytes(bad)).status_code == 204
    done = api.post(f"/v1/pushes/{begun['push_id']}/finish")
    assert (done.status_code, done.json()["state"]) == (200, "failed")
    problem = done.json()["problem"]
    assert problem["code"] == "integrity_failed"
    assert problem["errors"][0]["field"] == "m"
    if flipped > 30_000:
        assert "tensor 'decoder.w'" in problem["detail"]
    assert api.get("/v1/models/net").status_code == 404
    assert _stored(tmp_path / "objects") == []
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM upload")) == 0
        assert connection.scalar(text("SELECT count(*) FROM object")) == 0


def _open_plain(api: httpx.Client, **sizes: int) -> httpx.Response:
    """Begin to push files of these sizes and open their uploads, of which nothing is sent."""
    files = [{"path": p, "size": n, "sha256": sha256(p.encode())} for p, n in sizes.items()]
    push = api.post("/v1/models/net/pushes", json={"version": "v1", "files": files}).json()
    uploads = [
        {
            "digest": file["sha256"],
            "size": file["size"],
            "contents": [{"path": file["path"], "first_chunk": 0, "last_chunk": 1}],
        }
        for file in files
    ]
    return api.post(f"/v1/pushes/{push['push_id']}/uploads", json={"uploads": uploads})


def test_uploads_beside_one_that_does_not_fit_hold_no_room(
    api: httpx.Client, tmp_path: Path
) -> None:
    refused = _open_plain(api, a=2**20, b=2**50)
    assert (refused.status_code, refused.json()["code"]) == (507, "store_full")
    assert _stored(tmp_path / "objects") == []


def test_uploads_that_are_not_committed_hold_no_room(
    api: httpx.Client, tmp_path: Path, engine: Engine
) -> None:
    fail_commits(engine, "upload")
    assert _open_plain(api, a=2**20).status_code == 500
    assert _stored(tmp_path / "objects") == []


def _lie_about_file(manifest: Manifest) -> Manifest:
    return Manifest((replace(manifest.files[0], sha256=sha256(b"a lie")),))


def _lie_about_tensor(manifest: Manifest) -> Manifest:
    (file,) = manifest.files
    tensors = tuple(replace(t, digest=sha256(b"a lie")) for t in file.tensors)
    return Manifest((replace(file, tensors=tensors),))


@pytest.mark.parametrize("lie", [_lie_about_file, _lie_about_tensor])
def test_a_manifest_that_lies_about_stitched_bytes_fails(api: httpx.Client, lie) -> None:
    """Every chunk is right, but the file's or a long tensor's digest is not theirs."""
    data = os.urandom(17 * 1024 * 1024)
    weights = make_safetensors(long=data)
    honest = make_manifest({"m": weights})
    assert push_manifest(api, "net", "v1", {"m": weights})[1].json()["created"]
    _, done = push_manifest(api, "net", "v2", {"m": weights}, manifest=lie(honest))
    assert (done.json()["state"], done.json()["problem"]["code"]) == ("failed", "integrity_failed")
    assert [v["version"] for v in api.get("/v1/models/net/versions").json()["versions"]] == ["v1"]


def test_a_lie_about_chunks_of_a_stored_object_fails(api: httpx.Client) -> None:
    """An object that is there is not sent again, so what it is said to hold is hashed."""
    old, new, lie = os.urandom(5000), os.urandom(300), sha256(b"a lie")
    assert push_manifest(api, "net", "v1", {"o": old})[1].json()["created"]
    file = make_manifest({"m": old + new}).files[0]
    stitched = replace(file, chunks=(Chunk(lie, len(old)), Chunk(sha256(new), len(new))))
    both = [
        {"digest": sha256(data), "size": len(data), "contents": [_chunk_of("m", index)]}
        for index, data in enumerate((old, new))
    ]
    begun = begin_manifest(api, "net", "v2", {}, manifest=Manifest((stitched,))).json()
    send(api, begun, both, {sha256(new): new})
    done = api.post(f"/v1/pushes/{begun['push_id']}/finish").json()
    assert (done["state"], done["problem"]["code"]) == ("failed", "integrity_failed")
    assert "chunk 0" in done["problem"]["detail"]


def test_a_lie_about_chunks_of_a_whole_stored_file_fails(api: httpx.Client) -> None:
    data = os.urandom(5000)
    assert push_manifest(api, "net", "v1", {"o": data})[1].json()["created"]
    file = make_manifest({"m": data}).files[0]
    chunks = (Chunk(sha256(data[:2000]), 2000), Chunk(sha256(b"a lie"), 3000))
    lying = Manifest((replace(file, chunks=chunks),))
    begun = begin_manifest(api, "net", "v2", {}, manifest=lying).json()
    assert begun["missing"] == []
    done = api.post(f"/v1/pushes/{begun['push_id']}/finish").json()
    assert (done["state"], done["problem"]["code"]) == ("failed", "integrity_failed")
    assert "chunk 1" in done["problem"]["detail"]


def _chunk_of(path: str, index: int) -> dict[str, object]:
    return {"path": path, "first_chunk": index, "last_chunk": index + 1}


def test_finish_names_what_is_missing(api: httpx.Client) -> None:
    begun = begin_manifest(api, "net", "v1", {"a": b"1", "b": b"22"}).json()
    other = api.post(
        "/v1/models/net/pushes",
        json={"version": "v2", "files": [{"path": "c", "size": 3, "sha256": sha256(b"333")}]},
    ).json()
    refused = api.post(f"/v1/pushes/{other['push_id']}/finish")
    assert (refused.status_code, refused.json()["code"]) == (409, "upload_incomplete")
    assert refused.json()["errors"] == [{"field": "c", "message": "chunks missing"}]
    upload = {
        "digest": sha256(b"333"),
        "size": 3,
        "contents": [{"path": "c", "first_chunk": 0, "last_chunk": 1}],
    }
    api.post(f"/v1/pushes/{other['push_id']}/uploads", json={"uploads": [upload]})
    refused = api.post(f"/v1/pushes/{other['push_id']}/finish")
    assert refused.json()["errors"] == [{"field": sha256(b"333"), "message": "parts missing: 1"}]
    send(api, other, [upload], {sha256(b"333"): b"333"})
    assert api.post(f"/v1/pushes/{other['push_id']}/finish").json()["state"] == "ready"
    refused = api.post(f"/v1/pushes/{begun['push_id']}/finish")
    assert [error["field"] for error in refused.json()["errors"]] == ["a", "b"]


def test_a_dropped_push_leaves_nothing(api: httpx.Client, tmp_path: Path) -> None:
    begun = begin_manifest(api, "net", "v1", {"a": b"bytes"}).json()
    assert api.delete(f"/v1/pushes/{begun['push_id']}").status_code == 204
    assert api.get(f"/v1/pushes/{begun['push_id']}").json()["code"] == "push_not_found"
    assert _stored(tmp_path / "objects") == []


def test_parts_have_their_exact_size(api: httpx.Client) -> None:
    begun = api.post(
        "/v1/models/net/pushes",
        json={"version": "v1", "files": [{"path": "c", "size": 3, "sha256": sha256(b"333")}]},
    ).json()
    upload = {
        "digest": sha256(b"333"),
        "size": 3,
        "contents": [{"path": "c", "first_chunk": 0, "last_chunk": 1}],
    }
    opened = api.post(f"/v1/pushes/{begun['push_id']}/uploads", json={"uploads": [upload]}).json()
    url = opened["uploads"][0]["targets"][0]["url"]
    assert httpx.put(url, content=b"22").status_code == 422
    assert httpx.put(url, content=b"4444").status_code == 422
    assert httpx.put(url.replace("parts/1", "parts/2"), content=b"333").status_code == 403
    assert httpx.put(url[:-1] + ("1" if url[-1] == "0" else "0"), content=b"333").status_code == 403
    assert httpx.put(url, content=b"333").status_code == 204
    again = api.post(f"/v1/pushes/{begun['push_id']}/uploads", json={"uploads": [upload]}).json()
    assert again["uploads"][0]["upload_id"] == opened["uploads"][0]["upload_id"]
    assert (again["uploads"][0]["parts_stored"], again["uploads"][0]["targets"]) == ([1], [])
