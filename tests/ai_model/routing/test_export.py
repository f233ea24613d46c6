"""Exports are held to the real program where there is one."""

import json
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ai_model.routing.export import export_route
from ai_model_format.wire import EndpointInfo, LoadedInfo, RouteInfo, ShareInfo
from tests.services.nginx import find_nginx

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SHARES = {"v2.3": 9500, "v2.4": 500}


def route(**shares: int) -> RouteInfo:
    return RouteInfo(
        model_id="team/res.net-50", revision=7,
        shares=[
            ShareInfo(version=version, manifest_digest="sha256:" + "a" * 64, basis_points=share)
            for version, share in (shares or SHARES).items()
        ],
    )  # fmt: skip


def endpoint(address: str, version: str, *, state: str = "live") -> EndpointInfo:
    loaded = LoadedInfo(version=version, digest="sha256:" + "a" * 64, since=NOW, matches=True)
    return EndpointInfo(
        model_id="team/res.net-50", address=address, state=state, ttl_s=15,
        registered_at=NOW, last_beat_at=NOW, versions=[loaded],
    )  # fmt: skip


ENDPOINTS = [
    endpoint("127.0.0.1:9001", "v2.3"),
    endpoint("127.0.0.1:9002", "v2.3"),
    endpoint("127.0.0.1:9003", "v2.4", state="draining"),
]


def export(target: str, **shares: int) -> str:
    return export_route(route(**shares), ENDPOINTS, target=target, user_header="x-user-id")


def test_nginx_takes_it(tmp_path: Path) -> None:
    text = export("nginx")
    assert "server 127.0.0.1:9001;" in text
    assert "9003" not in text, "a draining server gets nothing"
    config = tmp_path / "nginx.conf"
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "".join(f"{kind}_temp_path {tmp_path}/{kind};" for kind in kinds)
    http = f"http {{ {places} access_log off;\n{text}}}"
    config.write_text(f"pid {tmp_path}/pid; error_log stderr; events {{}} {http}")
    command = [str(find_nginx()), "-t", "-p", str(tmp_path), "-c", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("haproxy") is None, reason="HAProxy is not installed")
def test_haproxy_takes_it(tmp_path: Path) -> None:
    config = tmp_path / "haproxy.cfg"
    timeouts = "defaults\n    timeout client 5s\n    timeout server 5s\n    timeout connect 1s\n"
    config.write_text(timeouts + export("haproxy"))
    done = subprocess.run(
        ["haproxy", "-c", "-f", str(config)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_traefik_has_the_weights() -> None:
    services = json.loads(export("traefik"))["http"]["services"]
    weights = {s["name"]: s["weight"] for s in services["team_res_net_50"]["weighted"]["services"]}
    assert weights == {"team_res_net_50-v2_3": 9500, "team_res_net_50-v2_4": 500}
    assert set(weights) < set(services)


def test_gateway_api_has_the_weights() -> None:
    document = json.loads(export("gateway-api"))
    backends = document["spec"]["rules"][0]["backendRefs"]
    assert [(b["name"], b["weight"]) for b in backends] == [
        ("team-res-net-50-v2-3", 9500), ("team-res-net-50-v2-4", 500),
    ]  # fmt: skip


def test_istio_has_whole_percents() -> None:
    document = json.loads(export("istio"))
    assert [r["weight"] for r in document["spec"]["http"][0]["route"]] == [95, 5]
    with pytest.raises(ValueError, match="whole percents"):
        export("istio", **{"v2.3": 9950, "v2.4": 50})
