"""Ask a server for paths over kept-open connections and keep every answer's time.

``load.py HOST PORT TOKEN CONNECTIONS SECONDS FILE``: the file has one path a line. Over raw
sockets, so that the client's own work stays a small part of what two cores can do.
"""

import json
import socket
import sys
import threading
import time


def ask(connection: socket.socket, path: str, host: str, token: str, buffer: bytearray) -> int:
    """Send one GET, read the whole answer, return its status."""
    connection.sendall(
        f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    )
    got = connection.recv_into(buffer)
    while (end := buffer.find(b"\r\n\r\n", 0, got)) < 0:
        got += connection.recv_into(memoryview(buffer)[got:])
    head = bytes(buffer[:end]).lower()
    length = int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
    left = length - (got - end - 4)
    while left > 0:
        left -= connection.recv_into(buffer)
    return int(head[9:12])


def worker(host, port, token, paths, until, seen):
    """Ask until the time is over."""
    buffer, number = bytearray(1024 * 1024), 0
    with socket.create_connection((host, port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while time.perf_counter() < until:
            began = time.perf_counter()
            status = ask(connection, paths[number % len(paths)], f"{host}:{port}", token, buffer)
            seen.append((time.perf_counter() - began, status))
            number += 1


def main(host: str, port: int, token: str, connections: int, seconds: float, paths: list[str]):
    """Print times and statuses as JSON."""
    shares = [([], paths[n::connections] or paths) for n in range(connections)]
    began = time.perf_counter()
    threads = [
        threading.Thread(target=worker, args=(host, port, token, own, began + seconds, seen))
        for seen, own in shares
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed_s = time.perf_counter() - began
    done = [answer for seen, _ in shares for answer in seen]
    wrong = sorted({status for _, status in done if status != 200})
    print(json.dumps({"times": [t for t, _ in done], "wrong": wrong, "elapsed_s": elapsed_s}))


if __name__ == "__main__":
    host, port, token, connections, seconds, file = sys.argv[1:]
    with open(file) as lines:  # noqa: PTH123 - nothing more is imported than is needed
        listed = lines.read().split()
    main(host, int(port), token, int(connections), float(seconds), listed)
