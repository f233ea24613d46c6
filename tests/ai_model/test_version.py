"""A version's handle."""

import threading
from pathlib import Path
from types import SimpleNamespace

from ai_model.version import Version
from ai_model_format.digest import digest_of
from ai_model_format.manifest import Chunk, File, Manifest

TOGETHER_S = 30


def test_manifests_of_two_versions_are_read_at_the_same_time(tmp_path: Path):
    """Each read waits for the other one to have begun; one lock for both would never let it."""
    both_reading = threading.Barrier(2, timeout=TOGETHER_S)
    data = Manifest(
        (File("f", 1, digest_of(b"1"), "text/plain", "opaque", (_chunk(),)),)
    ).to_bytes()

    def read_from_registry(model_id: str, version: str) -> bytes:
        both_reading.wait()
        return data

    def handle(name: str) -> Version:
        api = SimpleNamespace(
            config=SimpleNamespace(cache_dir=tmp_path / name), manifest=read_from_registry
        )
        info = SimpleNamespace(model_id="m", version=name, manifest_digest=digest_of(data))
        return Version(api, info)  # type: ignore[arg-type]

    versions = [handle("v1"), handle("v2")]
    threads = [threading.Thread(target=lambda v=v: v.manifest) for v in versions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not both_reading.broken
    assert all(version.manifest.size == 1 for version in versions)


def _chunk() -> Chunk:
    return Chunk(digest_of(b"1"), 1)
