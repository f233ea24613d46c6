"""Transfers that outlast their signed URLs: each is signed anew before it expires."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ai_model import Progress
from storage.settings import S3Settings
from tests.services.registry import RegistryServer, running_on_s3

MIB = 1024 * 1024
EXPIRES_S = 3


@pytest.fixture
def short_lived(database: str, s3_settings: Callable[..., S3Settings]) -> Iterator[RegistryServer]:
    """A registry on S3 whose URLs are good for three seconds."""
    with running_on_s3(database, s3_settings(), AI_MODEL_URL_EXPIRES_S=str(EXPIRES_S)) as server:
        yield server


def slowly(phase: str) -> Callable[[Progress], None]:
    """Make a phase take longer than its first URLs live."""
    seen: list[int] = []

    def watch(progress: Progress) -> None:
        if progress.phase == phase and progress.done and len(seen) < 8:
            seen.append(progress.done)
            time.sleep(EXPIRES_S / 4)

    return watch


def test_urls_are_signed_anew(short_lived, new_client, model_id, tmp_path: Path):
    path = tmp_path / "file.bin"
    path.write_bytes(os.urandom(64 * MIB))
    client = new_client(short_lived)
    client.api.connections = 1
    assert client.push(path, model_id, "v1", on_progress=slowly("upload")).created
    got = client.get(model_id, "v1", output=tmp_path / "out", on_progress=slowly("fetch"))
    assert got.bytes_fetched >= 64 * MIB
    assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()
