"""Fetch a URL by ranges over raw sockets and hash every byte while it is hot in cache."""

import hashlib
import os
import queue
import socket
import ssl
import sys
import threading
import urllib.parse

RANGE = 16 * 1024 * 1024
BUFFER = 1024 * 1024
CONNECTIONS = 4


def connect(url):
    """Open a connection to the URL's host."""
    plain = socket.create_connection((url.hostname, url.port))
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if url.scheme == "https":
        return ssl.create_default_context().wrap_socket(plain, server_hostname=url.hostname)
    return plain


def fetch(connection, url, start, end, file, buffer):
    """Fetch one range, write it at its place, return its digest."""
    connection.sendall(
        f"GET {url.path}?{url.query} HTTP/1.1\r\nHost: {url.netloc}\r\n"
        f"Range: bytes={start}-{end - 1}\r\n\r\n".encode()
    )
    view, have = memoryview(buffer), 0
    while (head := bytes(view[:have]).find(b"\r\n\r\n")) < 0:
        have += connection.recv_into(view[have:])
    if not bytes(view[:12]).endswith(b"206"):
        raise SystemExit(f"not a range: {bytes(view[:60])!r}")
    piece, hashed, at = view[head + 4 : have], hashlib.sha256(), start
    while True:
        hashed.update(piece)
        os.pwrite(file, piece, at)
        at += len(piece)
        if at == end:
            return hashed.digest()
        got = connection.recv_into(view[: min(BUFFER, end - at)])
        if not got:
            raise SystemExit("the server hung up")
        piece = view[:got]


def worker(url, jobs, file, digests):
    """Fetch ranges until there are none."""
    connection, buffer = connect(url), bytearray(BUFFER)
    while True:
        try:
            start, end = jobs.get_nowait()
        except queue.Empty:
            return
        digests[start] = fetch(connection, url, start, end, file, buffer)


def main(address, size, target):
    """Fetch it all."""
    url, jobs, digests = urllib.parse.urlsplit(address), queue.SimpleQueue(), {}
    for start in range(0, size, RANGE):
        jobs.put((start, min(size, start + RANGE)))
    file = os.open(target, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.posix_fallocate(file, 0, size)
    threads = [
        threading.Thread(target=worker, args=(url, jobs, file, digests)) for _ in range(CONNECTIONS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(digests) != -(-size // RANGE):
        raise SystemExit("a range is missing")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
