"""Push and get by plain REST, bytes and all, against a running service."""

import gzip
import os

import httpx
import safetensors.numpy

from ai_model_format.manifest_reader import parse_manifest
from ai_model_format.wire import MAX_METADATA_BYTES
from tests.registry_api.conftest import make_safetensors, push_plain, sha256


def test_a_pushed_file_comes_back(api: httpx.Client) -> None:
    weights = make_safetensors(**{"encoder.w": os.urandom(5000), "decoder.w": os.urandom(70_000)})
    files = {"model.safetensors": weights, "a dir/config.json": b"{}", "empty": b""}
    done = push_plain(api, "team/net", "v1", files, metadata={"parameters": {"lr": 0.1}})
    assert (done.status_code, done.json()["state"], done.json()["created"]) == (200, "ready", True)

    info = api.get("/v1/models/team/net/versions/v1").json()
    assert [f["path"] for f in info["files"]] == ["a dir/config.json", "empty", "model.safetensors"]
    assert info["metadata"]["parameters"] == {"lr": 0.1}
    assert info["size"] == len(weights) + 2

    answer = api.get("/v1/models/team/net/versions/latest/manifest")
    assert answer.headers["content-encoding"] == "gzip"
    assert sha256(answer.content) == info["manifest_digest"] == answer.headers["etag"].strip('"')
    tensors = parse_manifest(answer.content).files[2].tensors
    assert [t.name for t in tensors] == ["encoder.w", "decoder.w"]

    for path, data in files.items():
        got = api.get(f"/v1/models/team/net/versions/v1/files/{path}")
        assert (got.status_code, got.content) == (200, data)
    assert safetensors.numpy.load(got.content if path == "model.safetensors" else weights)

    layout = api.get("/v1/models/team/net/versions/v1/layout").json()
    place = {f["path"]: f["runs"] for f in layout["files"]}
    ((index, offset, size),) = place["model.safetensors"]
    source = layout["objects"][index]
    assert (offset, size, source["digest"]) == (0, len(weights), sha256(weights))
    assert httpx.get(source["url"]).content == weights
    part = httpx.get(source["url"], headers={"Range": "bytes=10-19"})
    assert (part.status_code, part.content) == (206, weights[10:20])
    assert part.headers["content-range"] == f"bytes 10-19/{len(weights)}"


def test_the_same_bytes_again_are_a_success_that_says_so(api: httpx.Client) -> None:
    files = {"a.bin": b"some bytes"}
    assert push_plain(api, "m", "v1", files).json()["created"]
    again = push_plain(api, "m", "v1", files, metadata={"tags": {"a": "b"}})
    assert again.status_code == 200
    assert (again.json()["state"], again.json()["created"]) == ("ready", False)
    assert again.json()["notes"] == [
        "The metadata of 'v1' differs from yours and stays as it was published."
    ]
    other = push_plain(api, "m", "v1", {"a.bin": b"other bytes"})
    assert (other.status_code, other.json()["code"]) == (409, "version_conflict")


def test_gzip_bodies_are_read(api: httpx.Client) -> None:
    body = b'{"version": "v1", "files": [{"path": "a", "size": 1, "sha256": "%s"}]}' % (
        sha256(b"x").encode()
    )
    answer = api.post(
        "/v1/models/m/pushes",
        content=gzip.compress(body),
        headers={"Content-Encoding": "gzip", "Content-Type": "application/json"},
    )
    assert answer.status_code == 201, answer.text
    assert answer.json()["missing"] == [{"path": "a", "ranges": [[0, 1]]}]


def test_a_megabyte_of_parameters_comes_back_as_it_was_and_more_than_the_limit_is_refused(
    api: httpx.Client,
) -> None:
    parameters = {f"p{number}": "x" * 1000 for number in range(1100)}
    done = push_plain(api, "m", "v1", {"a": b"1"}, metadata={"parameters": parameters})
    assert done.status_code == 200, done.text
    assert api.get("/v1/models/m/versions/v1").json()["metadata"]["parameters"] == parameters
    too_much = {"parameters": {"p": "x" * MAX_METADATA_BYTES}}
    refused = push_plain(api, "m", "v2", {"a": b"2"}, metadata=too_much)
    assert (refused.status_code, refused.json()["code"]) == (413, "payload_too_large")
