"""Real proxies for tests: an HTTP proxy as companies run them, and TLS in front of a server."""

import base64
import select
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tests.services.registry import RegistryServer

_HEAD_LIMIT = 64 * 1024


@dataclass
class Proxy:
    """A running proxy.

    Attributes:
        url: where it listens.
        password: ``user:password`` that it demands; ``None`` lets everybody in.
        seen: method and target of each request that it was asked to pass on.
        refused: how many came without the password.
    """

    url: str = ""
    password: str | None = None
    seen: list[tuple[str, str]] = field(default_factory=list)
    refused: int = 0


@dataclass
class TlsFront:
    """A running TLS server that passes bytes on.

    Attributes:
        url: where it listens.
        connections: how many were opened to it, those whose handshake failed included.
        server: what stands behind it.
        authority: whose certificate it has.
    """

    url: str = ""
    connections: int = 0
    server: RegistryServer | None = None
    authority: Path | None = None


@contextmanager
def running_proxy(*, password: str | None = None) -> Iterator[Proxy]:
    """Run a forward proxy: ``GET http://...`` for plain HTTP, ``CONNECT`` for the rest."""
    proxy = Proxy(password=password)
    with _listening(lambda client: _serve_proxy(proxy, client)) as port:
        proxy.url = f"http://127.0.0.1:{port}"
        yield proxy


@contextmanager
def running_tls(port_behind: Callable[[], int], certificate: Path) -> Iterator[TlsFront]:
    """Run a TLS server in front of a local port.

    Args:
        port_behind: asked at each connection.
        certificate: PEM; the key lies beside it as ``.key``.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    front = TlsFront()

    def serve(client: socket.socket) -> None:
        front.connections += 1
        with (
            context.wrap_socket(client, server_side=True) as secure,
            socket.create_connection(("127.0.0.1", port_behind())) as behind,
        ):
            _join(secure, behind)

    with _listening(serve) as port:
        front.url = f"https://127.0.0.1:{port}"
        yield front


@dataclass
class Wire:
    """A running wire to a server.

    Attributes:
        url: of the end that clients are to use.
        left: bytes that it still carries, both ways together, before it breaks; ``None`` for all.
    """

    url: str = ""
    left: int | None = None

    def carries(self, size: int) -> bool:
        """Say whether so many bytes more get through."""
        if self.left is not None:
            self.left -= size
        return self.left is None or self.left > 0


@contextmanager
def running_wire(server: str) -> Iterator[Wire]:
    """Run a wire to a server, which breaks when told: every connection, and every new one."""
    wire = Wire()
    place = urlsplit(server)

    def serve(client: socket.socket) -> None:
        if wire.carries(0):
            with socket.create_connection((place.hostname, place.port)) as behind:
                _join(client, behind, wire.carries)

    with _listening(serve) as port:
        wire.url = f"http://127.0.0.1:{port}"
        yield wire


def make_certificates(folder: Path) -> tuple[Path, Path]:
    """Make a private CA and a certificate of it for 127.0.0.1; return CA and certificate."""
    ca, own = folder / "ca.pem", folder / "own.pem"
    extension = folder / "names"
    extension.write_text("subjectAltName=IP:127.0.0.1")
    new = "openssl req -newkey rsa:2048 -nodes -subj"
    signed = f"-CA {ca} -CAkey {ca.with_suffix('.key')} -CAcreateserial"
    for command in (
        f"{new} /CN=private -x509 -days 2 -keyout {ca.with_suffix('.key')} -out {ca}",
        f"{new} /CN=127.0.0.1 -keyout {own.with_suffix('.key')} -out {folder}/own.csr",
        f"openssl x509 -req -in {folder}/own.csr -days 2 -extfile {extension} -out {own} {signed}",
    ):
        subprocess.run(command.split(), check=True, capture_output=True)
    return ca, own


def _serve_proxy(proxy: Proxy, client: socket.socket) -> None:
    """Answer one connection of a client; it ends with the first server it was led to."""
    head, rest = _read_head(client)
    method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
    if proxy.password is not None and not _lets_in(head, proxy.password):
        proxy.refused += 1
        client.sendall(b"HTTP/1.1 407 Authentication Required\r\nContent-Length: 0\r\n\r\n")
        return
    proxy.seen.append((method, target))
    place = urlsplit(target if method != "CONNECT" else f"//{target}")
    with socket.create_connection((place.hostname, place.port or 80)) as server:
        if method == "CONNECT":
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            origin = f"{place.scheme}://{place.netloc}".encode()
            lines = head.replace(origin, b"", 1).split(b"\r\n")
            kept = [line for line in lines if not line.lower().startswith(b"proxy-")]
            server.sendall(_closing(kept) + rest)
        _join(client, server)


def _closing(lines: list[bytes]) -> bytes:
    """Return a head that makes the server close, so that every request is seen."""
    kept = [line for line in lines if not line.lower().startswith(b"connection:")]
    return b"\r\n".join([kept[0], b"Connection: close", *kept[1:]])


def _lets_in(head: bytes, password: str) -> bool:
    wanted = b"proxy-authorization: basic " + base64.b64encode(password.encode()).lower()
    return wanted in head.lower()


def _read_head(client: socket.socket) -> tuple[bytes, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = client.recv(_HEAD_LIMIT)
        if not piece:
            raise ConnectionError
        data += piece
    head, rest = data.split(b"\r\n\r\n", 1)
    return head + b"\r\n\r\n", rest


def _join(
    one: socket.socket, other: socket.socket, carries: Callable[[int], bool] = lambda _: True
) -> None:
    """Pass bytes on both ways until one side closes, or they are carried no more."""
    pairs = {one: other, other: one}
    while True:
        ready = [s for s in pairs if isinstance(s, ssl.SSLSocket) and s.pending()]
        for source in ready or select.select(list(pairs), [], [])[0]:
            data = source.recv(64 * 1024)
            if not data or not carries(len(data)):
                return
            pairs[source].sendall(data)


@contextmanager
def _listening(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Serve each connection in a thread of its own."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)

    def one(client: socket.socket) -> None:
        with suppress(OSError, ValueError), client:  # clients and servers go away as they like
            serve(client)

    def accept() -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = listener.accept()
                threading.Thread(target=one, args=(client,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
