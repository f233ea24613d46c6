"""Exports are held to the real programs, which also run them, and to the schemas of the rest."""

import json
import math
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest

from ai_model.routing.export import TARGETS, export_route
from ai_model_format.wire import EndpointInfo, LoadedInfo, RouteInfo, ShareInfo
from tests.services.gateways import (
    free_port,
    haproxy_command,
    nginx_command,
    running,
    traefik_command,
)
from tests.services.inference import InferenceServer

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SHARES = {"v2.3": 9500, "v2.4": 500}
MODEL = "team/res.net-50"
SCHEMAS = Path(__file__).parent / "schemas"
REQUESTS = 2000
Z_999 = 3.29
"""Standard deviations of a 99.9% interval."""


def route(**shares: int) -> RouteInfo:
    return RouteInfo(
        model_id=MODEL, revision=7,
        shares=[
            ShareInfo(version=version, manifest_digest="sha256:" + "a" * 64, basis_points=share)
            for version, share in (shares or SHARES).items()
        ],
    )  # fmt: skip


def endpoint(address: str, version: str, *, state: str = "live") -> EndpointInfo:
    loaded = LoadedInfo(version=version, digest="sha256:" + "a" * 64, since=NOW, matches=True)
    return EndpointInfo(
        model_id=MODEL, address=address, state=state, ttl_s=15,
        registered_at=NOW, last_beat_at=NOW, versions=[loaded],
    )  # fmt: skip


ENDPOINTS = [
    endpoint("127.0.0.1:9001", "v2.3"),
    endpoint("127.0.0.1:9002", "v2.3"),
    endpoint("127.0.0.1:9003", "v2.4", state="draining"),
]


def export(target: str, endpoints: list[EndpointInfo] | None = None, **shares: int) -> str:
    known = ENDPOINTS if endpoints is None else endpoints
    return export_route(route(**shares), known, target=target, user_header="x-user-id")


@pytest.fixture(scope="module")
def servers() -> Iterator[list[InferenceServer]]:
    """Two servers of v2.3 and one of v2.4."""
    started = [InferenceServer((version,)).start() for version in ("v2.3", "v2.3", "v2.4")]
    yield started
    for server in started:
        server.stop()


def answers(port: int, requests: int, **headers: str) -> list[dict[str, Any]]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=named, timeout=10) as client:
        return [client.get(f"/m/{MODEL}/v1/predict?k=1").json() for _ in range(requests)]


def check_split(port: int, servers: list[InferenceServer]) -> list[dict[str, Any]]:
    """Insist on 20% for v2.4, on both servers of v2.3, on the path as the server knows it."""
    got = answers(port, REQUESTS)
    assert {answer["path"] for answer in got} == {"/v1/predict?k=1"}
    counts = Counter(answer["server"] for answer in got)
    assert set(counts) == {server.port for server in servers}
    spread = math.sqrt(REQUESTS * 0.2 * 0.8)
    assert abs(counts[servers[2].port] - REQUESTS * 0.2) < Z_999 * spread
    return got


def live(servers: list[InferenceServer]) -> list[EndpointInfo]:
    return [endpoint(server.address, server.versions[0]) for server in servers]


@pytest.mark.parametrize("command", [nginx_command, haproxy_command])
def test_nginx_and_haproxy_take_it_and_split(
    command: Any, servers: list[InferenceServer], tmp_path: Path
) -> None:
    target, port = command.__name__.removesuffix("_command"), free_port()
    text = export(target, live(servers), **{"v2.3": 8000, "v2.4": 2000})
    argv = command(tmp_path, text, port)
    checked = subprocess.run(
        [*argv, "-t" if target == "nginx" else "-c"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    with running(argv, port, tmp_path):
        got = check_split(port, servers)
        assert {answer["model"] for answer in got} == {MODEL}
        version_of = {server.port: server.versions[0] for server in servers}
        assert all(answer["version"] == version_of[answer["server"]] for answer in got)
        for user in range(20):
            sticky = answers(port, 5, x_user_id=f"user-{user}")
            assert len({answer["version"] for answer in sticky}) == 1


def listed_by_traefik(admin: int, kind: str) -> list[dict[str, Any]]:
    """Return what Traefik made of a file; it answers 404 until it has read it."""
    for _ in range(200):
        answer = httpx.get(f"http://127.0.0.1:{admin}/api/http/{kind}")
        listed = answer.json() if answer.is_success else []
        if ours := [item for item in listed if item["provider"] == "file"]:
            return ours
        time.sleep(0.1)
    raise AssertionError(f"Traefik took no {kind} from its file")


def test_traefik_takes_it_and_splits(servers: list[InferenceServer], tmp_path: Path) -> None:
    port, admin = free_port(), free_port()
    text = export("traefik", live(servers), **{"v2.3": 8000, "v2.4": 2000})
    with running(traefik_command(tmp_path, text, port, admin), port, tmp_path):
        for kind in ("routers", "services", "middlewares"):
            ours = listed_by_traefik(admin, kind)
            assert {item["status"] for item in ours} == {"enabled"}, ours
        check_split(port, servers)


@pytest.mark.parametrize("target", TARGETS)
def test_a_draining_server_gets_nothing(target: str) -> None:
    assert "9003" not in export(target)


@pytest.mark.parametrize("command", [nginx_command, haproxy_command])
def test_a_version_without_servers_is_no_error(command: Any, tmp_path: Path) -> None:
    target = command.__name__.removesuffix("_command")
    argv = command(tmp_path, export(target, []), free_port())
    done = subprocess.run(
        [*argv, "-t" if target == "nginx" else "-c"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_gateway_api_keeps_its_schema() -> None:
    document = json.loads(export("gateway-api"))
    check_schema("httproute", document)
    backends = document["spec"]["rules"][0]["backendRefs"]
    assert [(b["name"], b["weight"]) for b in backends] == [
        ("team-res-net-50-v2-3", 9500), ("team-res-net-50-v2-4", 500),
    ]  # fmt: skip
    backends[0]["weight"] = -1
    with pytest.raises(jsonschema.ValidationError):
        check_schema("httproute", document)


def test_istio_keeps_its_schema_and_has_whole_percents() -> None:
    document = json.loads(export("istio"))
    check_schema("virtualservice", document)
    assert [r["weight"] for r in document["spec"]["http"][0]["route"]] == [95, 5]
    document["spec"]["http"][0]["routes"] = []
    with pytest.raises(jsonschema.ValidationError):
        check_schema("virtualservice", document)
    with pytest.raises(ValueError, match="whole percents"):
        export("istio", **{"v2.3": 9950, "v2.4": 50})


@pytest.mark.parametrize("target", TARGETS)
def test_versions_that_would_share_a_name_are_refused(target: str) -> None:
    with pytest.raises(ValueError, match="same name"):
        export(target, **{"v2.3": 9500, "v2-3": 500})


def check_schema(name: str, document: object) -> None:
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    jsonschema.Draft202012Validator(_strict(schema)).validate(document)


def _strict(schema: Any) -> Any:
    """Refuse unknown fields, as ``kubectl apply --validate=strict`` does."""
    if isinstance(schema, list):
        return [_strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: _strict(value) for key, value in schema.items()}
    plain = isinstance(schema.get("properties"), dict) and schema.get("type") is not None
    closed = plain and "object" in schema["type"] and "additionalProperties" not in schema
    return {**inner, "additionalProperties": False} if closed else inner
