"""Push and get by plain REST, bytes and all, against a running service."""

import gzip
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest
import safetensors.numpy

from ai_model_format.manifest_reader import parse_manifest
from ai_model_format.wire import MAX_METADATA_BYTES
from tests.registry_api.conftest import (
    Service,
    make_safetensors,
    push_plain,
    sha256,
    wait_until,
)


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


@contextmanager
def begun_parts(api: httpx.Client, count: int) -> Iterator[list[socket.socket]]:
    """Open uploads of two bytes each and send the first one only."""
    files = {f"f{number}": b"%02d" % number for number in range(count)}
    listed = [{"path": p, "size": 2, "sha256": sha256(d)} for p, d in files.items()]
    push = api.post("/v1/models/slow/pushes", json={"version": "v1", "files": listed}).json()
    uploads = [
        {
            "digest": file["sha256"],
            "size": 2,
            "contents": [{"path": file["path"], "first_chunk": 0, "last_chunk": 1}],
        }
        for file in listed
    ]
    opened = api.post(f"/v1/pushes/{push['push_id']}/uploads", json={"uploads": uploads}).json()
    with ExitStack() as stack:
        lanes = []
        for upload in opened["uploads"]:
            url = httpx.URL(upload["targets"][0]["url"])
            lane = stack.enter_context(socket.create_connection((url.host, url.port), timeout=60))
            head = f"PUT {url.raw_path.decode()} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n"
            lane.sendall(head.encode() + b"0")
            lanes.append(lane)
        yield lanes


def test_slow_uploads_do_not_stop_others(service: Service, tmp_path: Path) -> None:
    """More of them than handlers have threads."""

    def taken() -> int:
        count = 0
        for link in Path("/proc/self/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                count += link.readlink().match(f"{tmp_path}/objects/uploads/*/data")
        return count

    api = service.client()
    push_plain(api, "net", "v1", {"a": b"x"})
    with begun_parts(api, 48) as lanes:
        wait_until(lambda: taken() >= 40, "taking the parts")
        answer = api.get("/v1/models/net/versions/v1", timeout=20)
        assert answer.json()["version"] == "v1"
        assert push_plain(service.client(), "net", "v2", {"a": b"x"}).json()["state"] == "ready"
        for number, lane in enumerate(lanes):
            lane.sendall(b"%d" % (number % 10))
        assert {lane.recv(12) for lane in lanes} == {b"HTTP/1.1 204"}


def test_a_piece_that_takes_too_long_is_given_up(
    api: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registry_api.push.api.PIECE_TIMEOUT_S", 0.1)
    with begun_parts(api, 1) as (lane,):
        assert lane.recv(12) == b"HTTP/1.1 408"
