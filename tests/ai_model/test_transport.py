"""Proxies and TLS as companies have them, with real ones."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from safetensors.numpy import save_file

from ai_model import Registry
from ai_model.errors import NetworkError, UntrustedCertificate
from ai_model.retry import RetryPolicy
from tests.services.postgres import TEMPLATE, PostgresServer
from tests.services.proxies import TlsFront, make_certificates, running_proxy, running_tls
from tests.services.registry import RegistryServer, running_locally

QUICK = RetryPolicy(tries=3, base_s=0.01, cap_s=0.05)


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "AI_MODEL_CA_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def weights(model_id, tmp_path) -> Path:
    random = np.random.default_rng(list(model_id.encode()))
    tensors = {f"l{n}": random.random((500, 1000), dtype=np.float32) for n in range(4)}
    save_file(tensors, tmp_path / "m.safetensors")
    return tmp_path / "m.safetensors"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory) -> tuple[Path, Path]:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def tls(certificates, postgres_server: PostgresServer, tmp_path_factory) -> Iterator[TlsFront]:
    """A registry on a local store behind TLS, its signed URLs too."""
    url = postgres_server.create(template=TEMPLATE)
    port: list[int] = []
    with running_tls(lambda: port[0], certificates[1]) as front:
        objects = tmp_path_factory.mktemp("objects")
        with running_locally(url, objects, AI_MODEL_PUBLIC_URL=front.url) as server:
            port.append(urlsplit(server.endpoint).port or 0)
            front.authority = certificates[0]
            front.server = RegistryServer(front.url, server.token, objects_dir=objects)
            yield front
    postgres_server.drop(url)


def there_and_back(client: Registry, weights: Path, model_id: str, output: Path):
    client.api.session.policy = QUICK
    client.push(weights, model_id, "v1")
    got = client.get(model_id, "v1", output=output)
    assert (output / weights.name).read_bytes() == weights.read_bytes()
    return got


def test_everything_goes_through_a_proxy(
    registry_server, new_client, weights, model_id, tmp_path, monkeypatch
):
    with running_proxy() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)  # as programs are told by environment
        monkeypatch.setenv("http_proxy", proxy.url)
        got = there_and_back(new_client(registry_server), weights, model_id, tmp_path / "out")
        assert len(proxy.seen) >= got.requests + 4
        assert {urlsplit(target).netloc for _, target in proxy.seen} == {
            urlsplit(registry_server.endpoint).netloc
        }
        assert {"GET", "POST", "PUT"} <= {method for method, _ in proxy.seen}


def test_no_proxy_is_kept_to(registry_server, new_client, weights, model_id, tmp_path, monkeypatch):
    with running_proxy() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "example.org,127.0.0.1")
        there_and_back(new_client(registry_server), weights, model_id, tmp_path / "out")
        assert proxy.seen == []


def test_a_proxy_may_want_a_password(
    registry_server, new_client, weights, model_id, tmp_path, monkeypatch
):
    with running_proxy(password="me:p@ss word") as proxy:
        host = proxy.url.removeprefix("http://")
        monkeypatch.setenv("http_proxy", f"http://me:p%40ss%20word@{host}")
        there_and_back(new_client(registry_server), weights, model_id, tmp_path / "out")
        assert proxy.seen
        assert proxy.refused == 0
        monkeypatch.setenv("http_proxy", f"http://me:wrong@{host}")
        with pytest.raises(NetworkError, match="407") as caught:
            new_client(registry_server).open(model_id, "v1")
        assert "wrong" not in str(caught.value)
        assert proxy.refused == 1


def test_a_proxy_that_is_away_is_named(registry_server, new_client, model_id, monkeypatch):
    with running_proxy() as proxy:
        pass
    monkeypatch.setenv("http_proxy", proxy.url)
    client = new_client(registry_server)
    client.api.session.policy = QUICK
    with pytest.raises(NetworkError, match="refused") as caught:
        client.open(model_id, "v1")
    assert "proxy" in str(caught.value)


@pytest.mark.parametrize("through_proxy", [False, True])
@pytest.mark.parametrize("setting", ["SSL_CERT_FILE", "AI_MODEL_CA_FILE"])
def test_a_private_authority_is_trusted_when_told(
    setting, through_proxy, tls, new_client, weights, model_id, tmp_path, monkeypatch
):
    monkeypatch.setenv(setting, str(tls.authority))
    with running_proxy() as proxy:
        if through_proxy:
            monkeypatch.setenv("https_proxy", proxy.url)
        there_and_back(new_client(tls.server), weights, model_id, tmp_path / "out")
        assert {method for method, _ in proxy.seen} == ({"CONNECT"} if through_proxy else set())


@pytest.mark.parametrize("through_proxy", [False, True])
def test_an_unknown_authority_is_refused_at_once(
    through_proxy, tls, new_client, model_id, monkeypatch
):
    with running_proxy() as proxy:
        if through_proxy:
            monkeypatch.setenv("https_proxy", proxy.url)
        before = tls.connections
        with pytest.raises(UntrustedCertificate, match="certificate") as caught:
            new_client(tls.server).open(model_id, "v1")
    assert tls.connections == before + 1
    assert caught.value.exit_code == 7
    assert "SSL_CERT_FILE" in str(caught.value.way_out)
    assert tls.url.removeprefix("https://") in str(caught.value)


def test_another_name_in_the_certificate_is_refused(tls, certificates, tmp_path, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates[0]))
    named = tls.url.replace("127.0.0.1", "localhost")
    with (
        Registry(named, tls.server.token, cache_dir=tmp_path) as client,
        pytest.raises(UntrustedCertificate, match=r"[Hh]ostname|name"),
    ):
        client.whoami()


def test_a_ca_file_that_is_none_is_said(tls, tmp_path, monkeypatch):
    (tmp_path / "ca.pem").write_text("not a certificate")
    for path in ("ca.pem", "missing.pem"):
        monkeypatch.setenv("AI_MODEL_CA_FILE", str(tmp_path / path))
        with (
            Registry(tls.url, tls.server.token, cache_dir=tmp_path) as client,
            pytest.raises(NetworkError, match=path),
        ):
            client.whoami()
