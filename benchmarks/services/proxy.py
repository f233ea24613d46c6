"""A proxy that counts: it passes requests on unchanged and logs each as a line of JSON.

Started as ``proxy.py LOG PORT=UPSTREAM_PORT...``; the Host header stays the client's.
"""

import http.client
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PIECE = 256 * 1024


class Proxy(BaseHTTPRequestHandler):
    """Passes one request on at a time, keeping the client's connection open."""

    protocol_version = "HTTP/1.1"
    upstreams: dict[int, int]
    log: Path
    lock = threading.Lock()

    def _pass_on(self) -> None:
        own = self.server.server_address[1]
        upstream = http.client.HTTPConnection("127.0.0.1", self.upstreams[own], timeout=60)
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            upstream.putheader(name, value)
        upstream.endheaders()
        if size := int(self.headers.get("Content-Length") or 0):
            upstream.send(self.rfile.read(size))
        answer = upstream.getresponse()
        body = answer.read()
        with self.lock, self.log.open("a") as file:  # before the client can go on
            seen = {"port": own, "method": self.command, "path": self.path, "size": len(body)}
            file.write(json.dumps({**seen, "status": answer.status}) + "\n")
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        upstream.close()

    def __getattr__(self, name: str) -> Any:
        """Answer to ``do_GET`` and all other methods alike."""
        if name.startswith("do_"):
            return self._pass_on
        raise AttributeError(name)

    def log_message(self, *_: Any) -> None:
        """Stay silent."""


if __name__ == "__main__":
    Proxy.log = Path(sys.argv[1])
    pairs = (pair.partition("=") for pair in sys.argv[2:])
    Proxy.upstreams = {int(own): int(upstream) for own, _, upstream in pairs}
    servers = [ThreadingHTTPServer(("127.0.0.1", port), Proxy) for port in Proxy.upstreams]
    for server in servers[1:]:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    servers[0].serve_forever()
