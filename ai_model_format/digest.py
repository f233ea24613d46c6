"""SHA-256 digests, the names of content.

Written ``sha256:<64 lower-case hex digits>`` everywhere: in manifests, in
URLs, in the database and on the command line. Must not read files.
"""

import hashlib
import re
from typing import Annotated

from ai_model_format.names import InvalidName

Digest = Annotated[str, "sha256:<hex>"]

DIGEST_PATTERN = r"^sha256:[0-9a-f]{64}$"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)

EMPTY_DIGEST: Digest = "sha256:" + hashlib.sha256(b"").hexdigest()


def digest_of(data: bytes | bytearray | memoryview) -> Digest:
    """Return the digest of bytes in memory. Pure."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def parse_digest(text: str) -> Digest:
    """Return ``text`` if it is a digest.

    Raises:
        InvalidName: it is not ``sha256:`` and 64 lower-case hex digits.
    """
    if not _DIGEST.fullmatch(text):
        raise InvalidName("digest", text, "is written sha256: and 64 lower-case hex digits")
    return text


def hex_of(digest: Digest) -> str:
    """Return the 64 hex digits of a digest. Pure."""
    return digest.removeprefix("sha256:")


def raw_of(digest: Digest) -> bytes:
    """Return the 32 bytes of a digest. Pure."""
    return bytes.fromhex(hex_of(digest))


def digest_from_raw(raw: bytes) -> Digest:
    """Return the digest whose 32 bytes are ``raw``. Pure."""
    return "sha256:" + raw.hex()
