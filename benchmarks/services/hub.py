"""A file server that speaks as much of the Hugging Face Hub's API as a download asks for.

Like the real one it holds no bytes: ``resolve`` answers with the file's digest and size, and
sends the client on to a signed URL of the store.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

REVISION = "0" * 40


class Hub(BaseHTTPRequestHandler):
    """``/<owner>/<model>/resolve/<revision>/<file>`` and what is asked around it."""

    files: dict[str, Any]

    def do_HEAD(self) -> None:
        """Say what a file is."""
        self._resolve()

    def do_GET(self) -> None:
        """Send the client to the bytes."""
        self._resolve()

    def _resolve(self) -> None:
        known = self.files.get(self.path.partition("?")[0].lstrip("/"))
        self.send_response(302 if known else 404)
        if known:
            self.send_header("X-Repo-Commit", REVISION)
            self.send_header("X-Linked-Size", str(known["size"]))
            self.send_header("X-Linked-ETag", f'"{known["sha256"]}"')
            self.send_header("ETag", f'"{known["sha256"]}"')
            self.send_header("Location", known["url"])
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_PUT(self) -> None:
        """Learn of a file: the harness says its size, digest and URL."""
        said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.files[self.path.lstrip("/")] = said
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Stay silent."""


if __name__ == "__main__":
    Hub.files = {}
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Hub).serve_forever()
