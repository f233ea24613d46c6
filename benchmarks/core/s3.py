"""The little of S3 that the harness itself needs: signed URLs, a bucket, stocking objects."""

import hashlib
import hmac
import http.client
import re
import ssl
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class Store:
    """A bucket and the right to use it; ``ca`` is the certificate to trust over TLS."""

    endpoint: str
    access_key: str
    secret_key: str
    bucket: str
    ca: Path | None = None

    @property
    def host(self) -> str:
        """Host and port, as signed."""
        return urllib.parse.urlsplit(self.endpoint).netloc

    @property
    def env(self) -> dict[str, str]:
        """Settings that AWS's own tools read, and whom to trust for all others."""
        trust = ("SSL_CERT_FILE", "AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
            "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required",
            **{name: str(self.ca) for name in trust if self.ca},
        }

    def presign(
        self, method: str, key: str = "", *, query: str = "", expires_s: int = 43200
    ) -> str:
        """Return a URL that allows ``method`` on an object, or on the bucket without ``key``."""
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        scope = f"{now[:8]}/{REGION}/s3/aws4_request"
        path = urllib.parse.quote(f"/{self.bucket}" + (f"/{key}" if key else ""))
        signed = {
            "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
            "X-Amz-Credential": f"{self.access_key}/{scope}",
            "X-Amz-Date": now,
            "X-Amz-Expires": str(expires_s),
            "X-Amz-SignedHeaders": "host",
            **dict(urllib.parse.parse_qsl(query)),
        }
        terms = "&".join(f"{k}={urllib.parse.quote(v, safe='')}" for k, v in sorted(signed.items()))
        request = f"{method}\n{path}\n{terms}\nhost:{self.host}\n\nhost\nUNSIGNED-PAYLOAD"
        hashed = hashlib.sha256(request.encode()).hexdigest()
        signing_key = f"AWS4{self.secret_key}".encode()
        for step in (now[:8], REGION, "s3", "aws4_request"):
            signing_key = hmac.digest(signing_key, step.encode(), "sha256")
        to_sign = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashed}".encode()
        signature = hmac.digest(signing_key, to_sign, "sha256").hex()
        return f"{self.endpoint}{path}?{terms}&X-Amz-Signature={signature}"

    def connect(self) -> http.client.HTTPConnection:
        """Return a connection to the store."""
        if self.ca:
            context = ssl.create_default_context(cafile=str(self.ca))
            return http.client.HTTPSConnection(self.host, context=context, timeout=600)
        return http.client.HTTPConnection(self.host, timeout=600)

    def make_bucket(self) -> None:
        """Make the bucket.

        Raises:
            OSError: the store refused.
        """
        self._send("PUT", self.presign("PUT"))

    def upload(self, source: Path, key: str) -> None:
        """Store a file as one object, by one plain PUT.

        Raises:
            OSError: the store refused.
        """
        with source.open("rb") as body:
            self._send("PUT", self.presign("PUT", key), body, source.stat().st_size)

    def delete(self, key: str) -> None:
        """Remove an object; missing is fine."""
        self._send("DELETE", self.presign("DELETE", key))

    def stored_bytes(self, prefix: str = "") -> int:
        """Return the bytes of all objects whose key starts with ``prefix``."""
        total, token = 0, ""
        while True:
            query = f"list-type=2&prefix={prefix}" + (
                f"&continuation-token={token}" if token else ""
            )
            page = self._send("GET", self.presign("GET", query=query)).decode()
            total += sum(int(size) for size in re.findall(r"<Size>(\d+)</Size>", page))
            following = re.search(r"<NextContinuationToken>(.*?)<", page)
            if not following:
                return total
            token = urllib.parse.quote(following[1], safe="")

    def _send(self, method: str, url: str, body=None, size: int = 0) -> bytes:
        connection = self.connect()
        target = url[len(self.endpoint) :]
        connection.request(method, target, body=body, headers={"Content-Length": str(size)})
        answer = connection.getresponse()
        said = answer.read()
        connection.close()
        if answer.status >= 300:
            raise OSError(f"{method} {target.partition('?')[0]}: {answer.status} {said[:200]!r}")
        return said
