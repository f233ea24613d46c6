"""Names of things in a store, the same in a directory and in a bucket. Pure.

``objects/sha256/ab/cd/<64 hex digits>`` is an object; two levels of folders keep
every folder small. ``uploads/<random>`` is where parts gather before they are one.
"""

import re
import secrets

from ai_model_format.digest import Digest, hex_of, parse_digest

OBJECTS = "objects/"
UPLOADS = "uploads/"

_OBJECT_KEY = re.compile(r"objects/sha256/([0-9a-f]{2})/([0-9a-f]{2})/(\1\2[0-9a-f]{60})", re.ASCII)
_UPLOAD_KEY = re.compile(r"uploads/[0-9a-z-]{1,64}", re.ASCII)


def object_key(digest: Digest) -> str:
    """Return the key of an object.

    Raises:
        InvalidName: ``digest`` is not a digest; nothing else may become a path.
    """
    name = hex_of(parse_digest(digest))
    return f"{OBJECTS}sha256/{name[:2]}/{name[2:4]}/{name}"


def parse_object_key(key: str) -> Digest | None:
    """Return the digest that a key names, ``None`` where it is no object's key."""
    match = _OBJECT_KEY.fullmatch(key)
    return f"sha256:{match.group(3)}" if match else None


def new_upload_key() -> str:
    """Return a key where an upload may gather, never used before."""
    return UPLOADS + secrets.token_hex(16)


def is_upload_key(key: str) -> bool:
    """Say whether ``key`` is one of ``new_upload_key``, and so safe as a path."""
    return _UPLOAD_KEY.fullmatch(key) is not None
