"""SeaweedFS: the S3 that all share."""

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.core.envs import PeerUnavailable
from benchmarks.core.processes import Command, Server, free_ports, listening
from benchmarks.core.s3 import Store

ACCESS_KEY, SECRET_KEY, BUCKET = "bench-key", "bench-secret", "bench"


def start(folder: Path, *, tls: bool = False, endpoint: str = "") -> tuple[Server, Store]:
    """Start a store of one node that keeps its data below ``folder``.

    ``endpoint`` is where clients reach it, if not at its own port.

    Raises:
        CommandFailed: it did not start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    names = (
        "master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port",
        "filer.port.grpc", "s3.port", "s3.port.grpc", "s3.port.iceberg", "s3.port.lance",
        "s3.port.https", "iam.port",
    )  # fmt: skip
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    config = folder / "s3.json"
    config.write_text(json.dumps(_identities()))
    flags = [f"-{name}={port}" for name, port in ports.items() if tls or name != "s3.port.https"]
    ca = _certificate(folder) if tls else None
    if ca:
        flags += [f"-s3.cert.file={ca}", f"-s3.key.file={folder / 'key.pem'}"]
    argv = (
        str(Path(sys.executable).with_name("weed")), "server", f"-dir={folder}", "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1", "-filer", "-s3", f"-s3.config={config}", "-volume.max=200",
        "-master.volumeSizeLimitMB=4096", "-master.telemetry=false", *flags,
    )  # fmt: skip
    server = Server(Command(argv, cwd=folder), folder, folder / "weed.log")
    port = ports["s3.port.https" if tls else "s3.port"]
    own = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    store = Store(endpoint or own, ACCESS_KEY, SECRET_KEY, BUCKET, ca)
    server.wait_until(lambda: listening(port) and _has_bucket(store))
    return server, store


def _has_bucket(store: Store) -> bool:
    try:
        store.make_bucket()
        probe = store.presign("PUT", "ready")
        store._send("PUT", probe)
        store.delete("ready")
    except OSError as error:
        return "409" in str(error)
    return True


def _identities() -> dict:
    right = {"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}
    actions = ["Admin", "Read", "Write", "List", "Tagging"]
    return {"identities": [{"name": "bench", "credentials": [right], "actions": actions}]}


def _certificate(folder: Path) -> Path:
    """Make a certificate for 127.0.0.1 that is its own authority."""
    target = folder / "cert.pem"
    argv = (
        "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
        "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
        "-keyout", str(folder / "key.pem"), "-out", str(target),
    )  # fmt: skip
    done = subprocess.run(argv, capture_output=True, check=False)
    if done.returncode:
        raise PeerUnavailable("no certificate: openssl is missing or failed")
    return target
