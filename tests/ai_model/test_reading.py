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
LOST_AT_MOST = 128 * 1024


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
        listener.bind((host, 0))
        listener.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        named = f"[{host}]" if family == socket.AF_INET6 else host
        yield f"http://{named}:{listener.getsockname()[1]}/weights"
        thread.join()


@contextmanager
def streamed(url: str) -> Iterator[httpx.Response]:
    with (
        httpx.Client(transport=Transport(connections=1), timeout=10) as client,
        client.stream("GET", url) as response,
    ):
        yield response


def test_what_came_before_a_reset_is_handed_over_first():
    content = bytes(range(256)) * 1200

    def answer(connection: socket.socket) -> None:
        connection.sendall(HEAD % MIB + content)
        time.sleep(FILL_S / 2)  # the client waits for more
        by_reset = struct.pack("ii", 1, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, by_reset)

    with serving(answer) as url, streamed(url) as response:
        buffer = memoryview(bytearray(MIB))
        count = read_into(response, buffer)
        assert len(content) - LOST_AT_MOST <= count <= len(content)
        assert buffer[:count] == content[:count]
        with pytest.raises(httpx.ReadError):
            read_into(response, buffer)


def test_a_body_that_ends_early_gives_what_it_had_and_then_nothing():
    def answer(connection: socket.socket) -> None:
        connection.sendall(HEAD % MIB + b"x" * 1000)

    with serving(answer) as url, streamed(url) as response:
        buffer = memoryview(bytearray(MIB))
        assert read_into(response, buffer) == 1000
        assert read_into(response, buffer) == 0


def test_a_slow_body_is_handed_over_with_what_is_there():
    stopped = threading.Event()

    def answer(connection: socket.socket) -> None:
        connection.sendall(HEAD % MIB)
        for _ in range(MIB // 1024):
            connection.sendall(b"y" * 1024)
            if stopped.wait(FILL_S / 5):
                return

    with serving(answer) as url, streamed(url) as response:
        count = read_into(response, memoryview(bytearray(MIB)))
        stopped.set()
    assert 0 < count < MIB // 2


def test_an_address_of_ipv6_is_reached():
    def answer(connection: socket.socket) -> None:
        connection.sendall(HEAD % 5 + b"bytes")

    with serving(answer, family=socket.AF_INET6) as url, streamed(url) as response:
        buffer = memoryview(bytearray(5))
        assert read_into(response, buffer) == 5
    assert bytes(buffer) == b"bytes"
