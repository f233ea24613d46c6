"""A buffer is filled from a connection as far as that goes, and nothing that came is lost."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest

from ai_model.transport import FILL_S, Transport, read_into

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
MIB = 1024 * 1024


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch) -> None:
    for name in ("http_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@contextmanager
def serving(answer: Callable[[socket.socket], None], *, family=socket.AF_INET) -> Iterator[str]:
    """Serve one connection by hand; yields the URL."""
    host = "127.0.0.1" if family == socket.AF_INET else "::1"

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            answer(connection)

    with socket.socket(family) as listener:
        listener.settimeout(30)
        listener.bind((host, 0))
        listener.listen()
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        named = f"[{host}]" if family == socket.AF_INET6 else host
        yield f"http://{named}:{listener.getsockname()[1]}/weights"
        thread.join(30)


@contextmanager
def streamed(url: str) -> Iterator[httpx.Response]:
    with (
        httpx.Client(transport=Transport(connections=1), timeout=10) as client,
        client.stream("GET", url) as response,
    ):
        yield response


def read_or_none(response: httpx.Response, buffer: memoryview) -> int | None:
    try:
        return read_into(response, buffer)
    except httpx.ReadError:
        return None


def read_to_the_end(response: httpx.Response) -> list[int]:
    """Return how many bytes each read brought into a buffer of 1 MiB."""
    buffer = memoryview(bytearray(MIB))
    return list(iter(lambda: read_into(response, buffer), 0))


def test_what_came_before_a_reset_is_handed_over_first():
    content = bytes(range(256)) * 1200

    def answer(connection: socket.socket) -> None:
        connection.sendall(HEAD % MIB + content)
        time.sleep(2)  # until all of it was read: a reset drops what was not
        by_reset = struct.pack("ii", 1, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, by_reset)

    got = b""
    with serving(answer) as url, streamed(url) as response:
        buffer = memoryview(bytearray(MIB))
        while count := read_or_none(response, buffer):
            got += bytes(buffer[:count])
    assert count is None
    assert got == content


def test_a_body_that_ends_early_gives_what_it_had_and_then_nothing():
    def answer(connection: socket.socket) -> None:
        connection.sendall(HEAD % MIB + b"x" * 1000)

    with serving(answer) as url, streamed(url) as response:
        buffer = memoryview(bytearray(MIB))
        assert read_into(response, buffer) == 1000
        assert read_into(response, buffer) == 0


def test_a_slow_body_is_handed_over_with_what_is_there():
    def answer(connection: socket.socket) -> None:
        connection.sendall(HEAD % MIB)
        for _ in range(8):
            connection.sendall(bytes(MIB // 8))
            time.sleep(FILL_S * 0.6)

    with serving(answer) as url, streamed(url) as response:
        counts = read_to_the_end(response)
    assert sum(counts) == MIB
    assert counts[0] < MIB


def test_a_process_that_waits_for_its_turn_does_not_take_the_body_for_ended(monkeypatch):
    """On a machine with a hundred of them, all of ``FILL_S`` can pass before the first read."""
    monkeypatch.setattr("ai_model.transport.FILL_S", 0.0)

    def answer(connection: socket.socket) -> None:
        connection.sendall(HEAD % MIB + bytes(MIB))

    with serving(answer) as url, streamed(url) as response:
        counts = read_to_the_end(response)
    assert sum(counts) == MIB


def test_a_body_in_chunks_is_put_together():
    def answer(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for size in (100_000, 1, 70_000):
            connection.sendall(b"%x\r\n%s\r\n" % (size, bytes(size)))
            time.sleep(0.05)
        connection.sendall(b"0\r\n\r\n")

    with serving(answer) as url, streamed(url) as response:
        counts = read_to_the_end(response)
    assert sum(counts) == 170_001


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_an_address_of_ipv6_is_reached():
    def answer(connection: socket.socket) -> None:
        connection.sendall(HEAD % 5 + b"bytes")

    with serving(answer, family=socket.AF_INET6) as url, streamed(url) as response:
        buffer = memoryview(bytearray(5))
        assert read_into(response, buffer) == 5
    assert bytes(buffer) == b"bytes"
