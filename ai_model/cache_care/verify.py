"""Hashes what the cache holds and what its notes name, and says what is not as it should be."""

import os
import threading
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from ai_model.cache import Cache, Held, HeldFile
from ai_model.cache_care.contents import notes, own_entries
from ai_model.cache_care.results import CacheProblem, CacheVerified
from ai_model.get.holdings import noted_digests
from ai_model.get.plan import Piece, Place
from ai_model.get.reuse import Reuser
from ai_model.get.targets import FileTarget
from ai_model.progress import Meter, OnProgress
from ai_model_format.digest import Digest, digest_of
from ai_model_format.manifest import File, InvalidManifest, Manifest
from ai_model_format.manifest_reader import parse_manifest


def verify_cache(cache: Cache, *, on_progress: OnProgress | None) -> CacheVerified:
    """Hash every manifest, and every byte that a note says lies somewhere."""
    problems = []
    hashed = 0
    for entry in own_entries(cache):
        if entry.item.kind == "manifest":
            hashed += entry.item.size
            if digest_of(entry.path.read_bytes()) != entry.item.name:
                problems.append(CacheProblem(str(entry.path), "is not the manifest it is named as"))
    held = [entry.held for entry in notes(cache) if entry.held is not None]
    meter = Meter("verify", sum(f.size for note in held for f in note.files), on_progress)
    by_manifest = sorted(held, key=lambda note: note.manifest_digest)
    for digest, group in groupby(by_manifest, key=lambda note: note.manifest_digest):
        manifest = _manifest(cache, digest)
        for note in group:
            problems += _check(note, manifest, meter)
    return CacheVerified(not problems, tuple(problems), bytes_verified=hashed + meter.done)


def _check(note: Held, manifest: Manifest | None, meter: Meter) -> Iterator[CacheProblem]:
    files = {file.path: file for file in manifest.files} if manifest else {}
    for file in note.files:
        if not file.is_unchanged():
            yield CacheProblem(file.source, "was changed or removed since it was noted")
        elif file.path not in files:
            yield CacheProblem(file.source, "cannot be checked: its manifest is not in the cache")
        else:
            bad = _bytes_bad(file, files[file.path], meter)
            if bad:
                yield CacheProblem(file.source, f"{bad:,} bytes lie in chunks with another digest")


def _bytes_bad(held: HeldFile, file: File, meter: Meter) -> int:
    sizes = {chunk.digest: chunk.size for chunk in file.chunks}
    wanted = [
        (place, Piece(digest, sizes[digest], file, 0, (place,)))
        for offset, digest in noted_digests(file, held).items()
        for place in (Place(0, offset),)
    ]
    try:
        source = FileTarget(Path(held.source), writable=False)
    except OSError:
        return held.size
    try:
        reuser = Reuser(workers=os.cpu_count() or 1, meter=meter, stopped=threading.Event())
        good = reuser.in_place(wanted, {0: source})
    finally:
        source.close()
    return sum(piece.size for place, piece in wanted if place not in good)


def _manifest(cache: Cache, digest: Digest) -> Manifest | None:
    data = cache.manifest(digest)
    try:
        return parse_manifest(data) if data is not None else None
    except InvalidManifest:
        return None
