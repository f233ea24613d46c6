"""Help for tests of the edge: objects in an origin, and requests for them."""

import random
from dataclasses import dataclass

import httpx

from ai_model_format.digest import Digest, digest_of
from storage.interface import ObjectStore


@dataclass(frozen=True, slots=True)
class Stored:
    """An object that lies in a store."""

    digest: Digest
    data: bytes


def store_object(store: ObjectStore, size: int, *, seed: int = 0) -> Stored:
    """Put random bytes into a store."""
    data = random.Random(seed).randbytes(size)
    digest = digest_of(data)
    store.put(digest, data)
    return Stored(digest, data)


def read(url: str, start: int, end: int) -> httpx.Response:
    """Read a half-open range."""
    return httpx.get(url, headers={"Range": f"bytes={start}-{end - 1}"})
