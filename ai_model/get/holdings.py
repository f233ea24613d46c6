"""Bytes of versions that lie on this machine already, so that they need not be fetched.

What is noted is believed only as far as where to look: whoever copies hashes.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from ai_model.api import Api
from ai_model.cache import Held, HeldFile
from ai_model.errors import AiModelError
from ai_model.version import Version
from ai_model_format.digest import Digest, digest_of
from ai_model_format.manifest import File, InvalidManifest, Manifest
from ai_model_format.manifest_reader import parse_manifest

MAX_MANIFESTS = 6
"""Manifests read at most in search of bytes; reading one of 90,000 tensors takes a second."""


@dataclass(frozen=True, slots=True)
class Holding:
    """A chunk's bytes in a local file."""

    source: str
    offset: int


class KnownManifests:
    """Manifests of what lies here, each parsed once, and not too many of them."""

    def __init__(self, version: Version, api: Api) -> None:
        self._cache = version.cache
        self._api = api
        self._parsed: dict[Digest, Manifest | None] = {version.digest: version.manifest}

    def find(self, digest: Digest) -> Manifest | None:
        """Return a manifest, ``None`` where it is not at hand."""
        if digest not in self._parsed and len(self._parsed) < MAX_MANIFESTS:
            data = self._cache.manifest(digest)
            try:
                self._parsed[digest] = parse_manifest(data) if data else None
            except InvalidManifest:
                self._parsed[digest] = None
        return self._parsed.get(digest)

    def obtain(self, model_id: str, digest: Digest) -> Manifest | None:
        """Return a manifest, from the registry where it is not at hand.

        ``None`` where that does not know it, or does not tell: it was a hint and no more.
        """
        if digest not in self._parsed and self._cache.manifest(digest) is None:
            with suppress(AiModelError):
                data = self._api.manifest(model_id, digest)
                if digest_of(data) == digest:
                    self._cache.keep_manifest(digest, data)
        return self.find(digest)


def find_holdings(
    notes: Iterable[Held], wanted: Collection[Digest], manifests: KnownManifests
) -> dict[Digest, list[Holding]]:
    """Return where chunks lie on this machine, at most two places each.

    Args:
        notes: where to look, the likeliest first.
        wanted: digests of chunks.
        manifests: of the versions that the notes name.
    """
    found: dict[Digest, list[Holding]] = {}
    for held in notes:
        if len(found) == len(wanted):
            break
        manifest = manifests.find(held.manifest_digest)
        for digest, holding in _chunks_of(held, manifest) if manifest else ():
            if digest in wanted:
                places = found.setdefault(digest, [])
                if len(places) < 2:
                    places.append(holding)
    return found


def noted_digests(file: File, held: HeldFile) -> dict[int, Digest]:
    """Return the digest of each chunk that should lie in a held file, by offset. Pure."""
    starts = file.chunk_starts
    try:
        return {
            offset + starts[index] - run.start: file.chunks[index].digest
            for offset, run in held.runs
            for index in file.chunks_in(run)
        }
    except InvalidManifest:
        return {}


def _chunks_of(held: Held, manifest: Manifest) -> Iterator[tuple[Digest, Holding]]:
    files = {file.path: file for file in manifest.files}
    for note in held.files:
        file = files.get(note.path)
        if file is None or not note.is_unchanged():
            continue
        for offset, digest in noted_digests(file, note).items():
            yield digest, Holding(note.source, offset)
