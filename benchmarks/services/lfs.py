"""Git LFS' batch API over the store: answers with signed URLs, as a git host does."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.core.s3 import Store


class Batch(BaseHTTPRequestHandler):
    """``POST /objects/batch``."""

    store: Store

    def do_POST(self) -> None:
        """Answer where to send or fetch each object."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        objects = [self._answer(asked["operation"], item) for item in asked["objects"]]
        body = json.dumps({"transfer": "basic", "objects": objects}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.git-lfs+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _answer(self, operation: str, item: dict[str, Any]) -> dict[str, Any]:
        method = "PUT" if operation == "upload" else "GET"
        href = self.store.presign(method, f"lfs/{item['oid']}")
        return {**item, "authenticated": True, "actions": {operation: {"href": href}}}

    def log_message(self, *_: Any) -> None:
        """Stay silent."""


if __name__ == "__main__":
    Batch.store = Store(*sys.argv[2:6])
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Batch).serve_forever()
