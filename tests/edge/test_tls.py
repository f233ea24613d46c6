"""TLS on both sides of an edge, and an edge behind an edge."""

import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from storage.s3 import S3ObjectStore
from tests.edge.origin import Stored, store_object
from tests.services.nginx import RunningEdge, StartEdge, free_port
from tests.services.seaweedfs import S3Server, new_bucket


@pytest.fixture
def certificates() -> Iterator[Path]:
    """A folder that nginx may read, with a certificate for 127.0.0.1 and another."""
    folder = Path(tempfile.mkdtemp(prefix="certificates-"))
    folder.chmod(0o755)
    for name in ("own", "other"):
        command = (
            "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1"
            f" -addext subjectAltName=IP:127.0.0.1 -keyout {name}.key -out {name}.pem"
        )
        subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
        (folder / f"{name}.key").chmod(0o644)
    (folder / "tls.conf").write_text(
        f"ssl_certificate {folder}/own.pem; ssl_certificate_key {folder}/own.key;"
    )
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def store(s3_server: S3Server) -> Iterator[S3ObjectStore]:
    store = S3ObjectStore(s3_server.settings(new_bucket()))
    store.ensure_bucket()
    yield store
    store.close()


@pytest.fixture
def stored(store: S3ObjectStore) -> Stored:
    return store_object(store, 300_000)


@pytest.fixture
def tls_edge(certificates: Path, s3_server: S3Server, start_edge: StartEdge) -> RunningEdge:
    listen = f"127.0.0.1:{free_port()} ssl"
    include = f"{certificates}/*.conf"
    return start_edge(s3_server.endpoint_url, scheme="https", listen=listen, include=include)


def test_clients_reach_an_edge_over_tls(
    certificates: Path, store: S3ObjectStore, stored: Stored, tls_edge: RunningEdge
) -> None:
    trust = ssl.create_default_context(cafile=str(certificates / "own.pem"))
    url = tls_edge.sign(store.object_url(stored.digest, expires_in_s=600))
    assert httpx.get(url, verify=trust).content == stored.data


@pytest.mark.parametrize(("trusted", "status"), [("own", 200), ("other", 502)])
def test_an_origins_certificate_is_checked(
    certificates: Path,
    store: S3ObjectStore,
    stored: Stored,
    tls_edge: RunningEdge,
    start_edge: StartEdge,
    trusted: str,
    status: int,
) -> None:
    near = start_edge(tls_edge.edge.url, origin_ca=f"{certificates}/{trusted}.pem")
    far = tls_edge.sign(store.object_url(stored.digest, expires_in_s=600))
    answer = httpx.get(near.sign(far))
    assert answer.status_code == status
    assert (answer.content == stored.data) == (status == 200)
