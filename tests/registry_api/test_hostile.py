"""Hostile input: a clear 4xx that says what is wrong; never a 500, never without bound."""

import gzip
import json
from collections.abc import Iterator

import httpx
import pytest

from registry_api.settings import MIB, Settings
from tests.ai_model_format.formats.test_safetensors import HOSTILE as SAFETENSORS
from tests.ai_model_format.formats.test_torch_zip import (
    ATTACKS,
    BAD_TENSORS,
    PICKLES,
    with_pickle,
)
from tests.registry_api.conftest import (
    Service,
    begin_manifest,
    make_manifest,
    push_plain,
    serving,
    sha256,
)
from tests.services.postgres import TEMPLATE, PostgresServer

JSON = {"Content-Type": "application/json"}
FILE = {"path": "a", "size": 1, "sha256": sha256(b"x")}


@pytest.fixture(scope="module")
def service(
    postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """One service for all tests here: nothing hostile may change what the next test sees."""
    url = postgres_server.create(template=TEMPLATE)
    objects = tmp_path_factory.mktemp("objects")
    with serving(
        Settings(database_url=url, local_path=objects, max_body_bytes=12 * MIB)
    ) as running:
        yield running
    postgres_server.drop(url)


@pytest.fixture(scope="module")
def api(service: Service) -> httpx.Client:
    """An admin's client."""
    return service.client("admin")


def push_body(**changes: object) -> dict:
    return {"version": "v1", "files": [FILE], **changes}


def check_problem(answer: httpx.Response, status: int, code: str) -> dict:
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["status"]) == (status, code, status), (
        problem
    )
    assert problem["request_id"] == answer.headers["x-request-id"]
    return problem


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
        b'{"version": "v1", "files": NaN}',
        b'{"version": "v1", "metadata": {"parameters": {"a": Infinity}}}',
        b'{"version": "v1", "metadata": {"parameters": {"a": 1e999}}}',
        b'{"version": "v1", "metadata": {"parameters": {"a": ' + b"9" * 5000 + b"}}}",
        json.dumps(push_body(metadata={"parameters": {"n": 2**80}})).encode(),
        json.dumps(push_body(metadata={"parameters": {"a": "nul \0"}})).encode(),
        json.dumps(push_body(metadata={"parameters": {"nul \0": 1}})).encode(),
        json.dumps(push_body(metadata={"tags": {"a": "\ud800"}})).encode(),
        json.dumps(push_body(metadata={"\ud800": 1})).encode(),
        json.dumps(push_body(metadata={"input_schema": {"type": "no such type"}})).encode(),
        json.dumps(push_body(metadata={"input_schema": {"$schema": 5}})).encode(),
        json.dumps(push_body(metadata={"input_schema": {"$schema": []}})).encode(),
        json.dumps(push_body(metadata={"input_schema": {"$schema": "http://[::1"}})).encode(),
        json.dumps(push_body(metadata={"input_schema": {"pattern": "a{9999999999}"}})).encode(),
        json.dumps(push_body(metadata={"output_schema": {"allOf": [{}] * 4000}})).encode(),
        json.dumps(push_body(metadata={"output_schema": {"title": "a" * 2**18}})).encode(),
        json.dumps(push_body(metadata={"output_schema": {"type": [*range(900), "a"]}})).encode(),
        json.dumps(push_body(metadata={"unknown": 1})).encode(),
        json.dumps(push_body(version="../v1")).encode(),
        json.dumps(push_body(version="latest")).encode(),
        json.dumps(push_body(version="v" * 129)).encode(),
        json.dumps(push_body(files=[{**FILE, "path": "../x"}])).encode(),
        json.dumps(push_body(files=[{**FILE, "path": "/etc/passwd"}])).encode(),
        json.dumps(push_body(files=[{**FILE, "path": "a\0"}])).encode(),
        json.dumps(push_body(files=[{**FILE, "size": -1}])).encode(),
        json.dumps(push_body(files=[{**FILE, "size": 2**70}])).encode(),
        json.dumps(push_body(files=[{**FILE, "size": 2**53 - 1}, {**FILE, "path": "b"}])).encode(),
        json.dumps(push_body(files=[FILE, FILE])).encode(),
        json.dumps(push_body(files=[FILE, {**FILE, "path": "a/b"}])).encode(),
        json.dumps(push_body(files=[])).encode(),
        json.dumps(push_body(manifest={})).encode(),
    ],
    ids=range(37),
)
def test_bodies_of_a_push(api: httpx.Client, body: bytes) -> None:
    answer = api.post("/v1/models/net/pushes", content=body, headers=JSON)
    assert check_problem(answer, 422, "invalid_request")["detail"]


def test_schemas_of_many_names_and_numbers_are_taken(api: httpx.Client) -> None:
    names = [f"class {number}" for number in range(5000)]
    metadata = {
        "input_schema": {"type": "array", "default": [0, *[0.5] * 4096]},
        "output_schema": {"$schema": "http://json-schema.org/draft-04/schema#", "enum": names},
    }
    begun = push_plain(api, "named", "v1", {"a": b"x"}, metadata=metadata)
    assert begun.json()["state"] == "ready", begun.text


def test_runs_that_hold_chunks_again_and_again(api: httpx.Client) -> None:
    files = {"a": b"1", "b": b"2"}
    push = begin_manifest(api, "runs", "v1", files).json()
    run = {"path": "a", "first_chunk": 0, "last_chunk": 1}
    upload = {"digest": sha256(b"?"), "size": 3, "contents": [run] * 3}
    answer = api.post(f"/v1/pushes/{push['push_id']}/uploads", json={"uploads": [upload]})
    assert "more chunks than" in check_problem(answer, 422, "invalid_request")["detail"]


def _deep(depth: int) -> dict:
    value: dict = {}
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize("depth", [65, 300, 900])
def test_deep_metadata(api: httpx.Client, depth: int) -> None:
    body = json.dumps(push_body(metadata={"parameters": _deep(depth)}))
    answer = api.post("/v1/models/net/pushes", content=body, headers=JSON)
    check_problem(answer, 422, "invalid_request")


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 2},
        {"files": []},
        {"files": [{}]},
        {"extra": 1},
        {"files": "x"},
        {"deep": _deep(500)},
        {"text": "\ud800"},
    ],
)
def test_manifests(api: httpx.Client, change: dict) -> None:
    value = {**json.loads(make_manifest({"a": b"x"}).to_bytes()), **change}
    body = json.dumps({"version": "v1", "manifest": value})
    answer = api.post("/v1/models/net/pushes", content=body, headers=JSON)
    check_problem(answer, 422, "invalid_manifest")


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/nowhere", 404, "not_found"),
        ("/v1/models/a/b/c", 404, "not_found"),
        ("/v1/models/UPPER", 422, "invalid_request"),
        ("/v1/models/a--b", 422, "invalid_request"),
        ("/v1/models/a%00b", 422, "invalid_request"),
        ("/v1/models/%2e%2e", 422, "invalid_request"),
        ("/v1/models/a..b/versions", 422, "invalid_request"),
        ("/v1/models/" + "a" * 300, 422, "invalid_request"),
        ("/v1/models/none", 404, "model_not_found"),
        ("/v1/models/team%2Fnone/versions", 404, "model_not_found"),
        ("/v1/models/none/versions/v1", 404, "model_not_found"),
        ("/v1/models/net/versions/v9", 404, "version_not_found"),
        ("/v1/models/net/versions/-", 422, "invalid_request"),
        ("/v1/models/net/versions/" + sha256(b"?"), 404, "version_not_found"),
        ("/v1/models/net/versions/sha256:12", 422, "invalid_request"),
        ("/v1/models/net/versions/v1/files/none", 404, "file_not_found"),
        ("/v1/models/net/versions/v1/files/%2e%2e/%2e%2e/etc/passwd", 422, "invalid_request"),
        ("/v1/models/net/versions/v1/files/a%00", 422, "invalid_request"),
        ("/v1/models/net/aliases/none", 404, "alias_not_found"),
        ("/v1/pushes/none", 422, "invalid_request"),
        ("/v1/pushes/00000000-0000-0000-0000-000000000000", 404, "push_not_found"),
        ("/v1/models?page_size=0", 422, "invalid_request"),
        ("/v1/models?page_size=99999999999999999999", 422, "invalid_request"),
        ("/v1/models?page_token=%FF", 422, "invalid_request"),
        ("/v1/models?prefix=%00", 422, "invalid_request"),
        ("/v1/objects/" + sha256(b"?"), 422, "invalid_request"),
        (f"/v1/objects/{sha256(b'?')}?expires=1&signature={'0' * 64}", 403, "forbidden"),
        ("/v1/pushes", 404, "not_found"),
    ],
)
def test_paths(api: httpx.Client, path: str, status: int, code: str) -> None:
    push_plain(api, "net", "v1", {"a": b"x"})
    check_problem(api.get(path), status, code)


def test_methods_and_request_ids(api: httpx.Client) -> None:
    check_problem(api.put("/v1/models"), 405, "method_not_allowed")
    answer = api.get("/nowhere", headers={"X-Request-Id": "mine-1"})
    assert check_problem(answer, 404, "not_found")["request_id"] == "mine-1"
    answer = api.get("/nowhere", headers={"X-Request-Id": "no spaces"})
    assert check_problem(answer, 404, "not_found")["request_id"] != "no spaces"


def test_large_bodies_are_refused_before_they_are_held(api: httpx.Client, service: Service) -> None:
    bomb = gzip.compress(b"[" + b" " * 50_000_000)
    assert len(bomb) < 60_000
    packed = {**JSON, "Content-Encoding": "gzip"}
    answer = api.post("/v1/models/net/pushes", content=bomb, headers=packed)
    check_problem(answer, 413, "payload_too_large")
    answer = api.post("/v1/models/net/pushes", content=b" " * (12 * MIB + 1), headers=JSON)
    check_problem(answer, 413, "payload_too_large")
    answer = service.anybody().post("/v1/models/net/pushes", content=b" " * 70_000)
    check_problem(answer, 413, "payload_too_large")
    many = b"[" + b"[]," * (3 * MIB) + b"1]"
    answer = api.post("/v1/models/net/pushes", content=many, headers=JSON)
    assert "brackets" in check_problem(answer, 413, "payload_too_large")["detail"]
    for broken in (b"not gzip", gzip.compress(b"{}")[:-3], gzip.compress(b"{}") + b"more"):
        answer = api.post("/v1/models/net/pushes", content=broken, headers=packed)
        check_problem(answer, 422, "invalid_request")
    odd = {**JSON, "Content-Encoding": "br"}
    answer = api.post("/v1/models/net/pushes", content=b"{}", headers=odd)
    check_problem(answer, 422, "invalid_request")


@pytest.mark.parametrize(
    ("role", "size", "status", "code"),
    [
        ("nobody", 65 * 1024, 401, "unauthenticated"),
        ("nobody", 60 * 1024, 422, "invalid_request"),
        ("reader", 2 * MIB, 403, "forbidden"),
        ("reader", MIB // 2, 422, "invalid_request"),
        ("writer", 2 * MIB, 422, "invalid_request"),
        ("writer", 13 * MIB, 413, "payload_too_large"),
    ],
)
@pytest.mark.parametrize("packed", [True, False])
def test_how_much_a_caller_may_send(
    service: Service, role: str, size: int, status: int, code: str, packed: bool
) -> None:
    """No body that is no JSON gets as far as the question who may push, if it is read at all."""
    nobody = service.anybody(Authorization="Bearer aim_unknown")
    client = nobody if role == "nobody" else service.client(role)
    content = b"[" + b" " * size
    headers = {**JSON, "Content-Encoding": "gzip"} if packed else JSON
    answer = client.post(
        "/v1/models/net/pushes",
        content=gzip.compress(content, 1) if packed else content,
        headers=headers,
    )
    check_problem(answer, status, code)
    if status == 401:
        assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("header", "status", "content"),
    [
        ("bytes=0-3", 206, b"0123"),
        ("bytes=8-", 206, b"89"),
        ("bytes=-3", 206, b"789"),
        ("bytes=-99", 206, b"0123456789"),
        ("bytes=5-99", 206, b"56789"),
        ("bytes=10-", 416, None),
        ("bytes=-0", 416, None),
        ("bytes=99999999999999999999999-", 200, b"0123456789"),
        ("bytes=3-1", 200, b"0123456789"),
        ("bytes=0-1,3-4", 200, b"0123456789"),
        ("items=0-1", 200, b"0123456789"),
        ("bytes=a-b", 200, b"0123456789"),
        ("", 200, b"0123456789"),
    ],
)
def test_ranges(api: httpx.Client, header: str, status: int, content: bytes | None) -> None:
    push_plain(api, "ranged", "v1", {"a": b"0123456789"})
    layout = api.get("/v1/models/ranged/versions/v1/layout").json()
    for url in ("/v1/models/ranged/versions/v1/files/a", layout["objects"][0]["url"]):
        answer = api.get(url, headers={"Range": header})
        assert answer.status_code == status
        if content is not None:
            assert answer.content == content
            assert answer.headers["accept-ranges"] == "bytes"
        else:
            assert answer.headers["content-range"] == "bytes */10"
            check_problem(answer, 416, "range_not_satisfiable")
        head = api.head(url)
        assert (head.status_code, head.headers["content-length"]) == (200, "10")
        etag = head.headers["etag"]
        assert api.get(url, headers={"If-None-Match": etag}).status_code == 304
        other = api.get(url, headers={"Range": "bytes=0-1", "If-Range": '"other"'})
        assert other.status_code == 200
        same = api.get(url, headers={"Range": "bytes=0-1", "If-Range": etag})
        assert same.content == b"01"


def test_metadata_of_one_megabyte_is_kept(api: httpx.Client) -> None:
    parameters = {f"k{n}": "x" * 1000 for n in range(1100)}
    done = push_plain(api, "large", "v1", {"a": b"x"}, metadata={"parameters": parameters})
    assert done.json()["state"] == "ready", done.text
    info = api.get("/v1/models/large/versions/v1").json()
    assert info["metadata"]["parameters"] == parameters
    huge = {"parameters": {"x": "y" * (9 * 1024 * 1024)}}
    refused = push_plain(api, "large", "v2", {"a": b"x"}, metadata=huge)
    check_problem(refused, 413, "payload_too_large")


FILES = {
    **{f"safetensors, {name}": data for name, (data, _) in SAFETENSORS.items()},
    **{f"tensor, {name}": with_pickle(data) for name, (data, _) in BAD_TENSORS.items()},
    **{f"pickle, {name}": with_pickle(data) for name, (data, _) in PICKLES.items()},
    **{f"zip, {name}": data for name, (data, _) in ATTACKS.items()},
    "pickle that runs code": with_pickle(b"cposix\nsystem\nX\4\0\0\0evil\x85R."),
}


CLAIM_NOTHING = {
    f"safetensors, {name}"
    for name in ("no room for a length", "header length overflow", "not an object", "leading space")
}


@pytest.mark.parametrize("name", sorted(FILES.keys() - CLAIM_NOTHING))
def test_files_that_lie_are_refused_by_name(api: httpx.Client, name: str) -> None:
    """The service indexes plain files itself."""
    done = push_plain(api, "hostile", "v1", {"a dir/weights": FILES[name]}).json()
    assert (done["state"], done["problem"]["code"]) == ("failed", "invalid_manifest")
    assert "'a dir/weights'" in done["problem"]["detail"]
    assert api.get("/v1/models/hostile").json()["code"] == "model_not_found"


@pytest.mark.parametrize("name", sorted(CLAIM_NOTHING))
def test_files_that_are_no_weights_are_kept_as_they_are(api: httpx.Client, name: str) -> None:
    version = "v" + sha256(name.encode())[-20:]
    assert push_plain(api, "odd", version, {"file": FILES[name]}).json()["state"] == "ready"
    info = api.get(f"/v1/models/odd/versions/{version}").json()
    assert info["files"][0]["format"] == "opaque"
    assert api.get(f"/v1/models/odd/versions/{version}/files/file").content == FILES[name]
