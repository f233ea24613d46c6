"""What is kept between runs: manifests by digest, and notes of which bytes lie where.

Everything here is a hint that is checked before use: a manifest by its digest,
held bytes by hashing them. So losing, truncating or forging it costs time and
nothing else, and a cache that cannot be written is no error.
"""

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ai_model_format.byte_range import ByteRange
from ai_model_format.digest import Digest, digest_of, hex_of

MAX_HELD = 256


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A file on this machine with bytes of a version.

    Attributes:
        source: absolute path.
        size: bytes, when it was noted.
        mtime_ns: when it was last written, then.
        path: of the file inside the version.
        runs: (offset in ``source``, bytes of the version's file that lie there).
    """

    source: str
    size: int
    mtime_ns: int
    path: str
    runs: tuple[tuple[int, ByteRange], ...]

    def is_unchanged(self) -> bool:
        """Say whether the file looks as it did when it was noted."""
        try:
            now = os.stat(self.source)  # noqa: PTH116 - a plain string from JSON
        except (OSError, ValueError):
            return False
        return (now.st_size, now.st_mtime_ns) == (self.size, self.mtime_ns)


@dataclass(frozen=True, slots=True)
class Held:
    """Files that a get wrote.

    Attributes:
        root: the output directory; one note a directory.
        model_id: of the version.
        manifest_digest: of the version.
        files: what lies there.
    """

    root: str
    model_id: str
    manifest_digest: Digest
    files: tuple[HeldFile, ...]


class Cache:
    """The cache directory. Safe to use from threads and processes.

    Attributes:
        directory: of it all.
        manifests_dir: manifests, each in a file of its digest's name.
        notes_dir: a note for each directory that a get wrote.
        loaded_dir: files that were fetched for ``load``, below their version's digest.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.manifests_dir = directory / "manifests"
        self.notes_dir = directory / "held"
        self.loaded_dir = directory / "loaded"

    def manifest(self, digest: Digest) -> bytes | None:
        """Return a manifest's bytes if they are here and have their digest."""
        path = self.manifests_dir / f"{hex_of(digest)}.json"
        try:
            data = path.read_bytes()
        except OSError:
            return None
        mark_used(path)
        return data if digest_of(data) == digest else None

    def keep_manifest(self, digest: Digest, data: bytes) -> None:
        """Keep a manifest; it never changes."""
        _write(self.manifests_dir / f"{hex_of(digest)}.json", data)

    def remember(self, held: Held) -> None:
        """Note what lies below ``held.root``, in place of what was noted before."""
        name = hashlib.sha256(os.fsencode(held.root)).hexdigest()[:32]
        _write(self.notes_dir / f"{name}.json", json.dumps(_held_to_json(held)).encode())

    def held(self, model_id: str) -> Iterator[Held]:
        """Yield what was noted, the same model's first, then the newest."""
        notes = [held for file in self._newest() if (held := read_held(file)) is not None]
        yield from (held for held in notes if held.model_id == model_id)
        yield from (held for held in notes if held.model_id != model_id)

    def _newest(self) -> list[Path]:
        """Return the notes, newest first, deleting those beyond ``MAX_HELD``."""
        try:
            with os.scandir(self.notes_dir) as entries:
                dated = [(entry.stat().st_mtime_ns, entry.path) for entry in entries]
        except OSError:
            return []
        paths = [Path(path) for _, path in sorted(dated, reverse=True)]
        for path in paths[MAX_HELD:]:
            with contextlib.suppress(OSError):
                path.unlink()
        return paths[:MAX_HELD]


def mark_used(path: Path) -> None:
    """Note that something was used now, so that it is not pruned as old."""
    with contextlib.suppress(OSError):
        os.utime(path)


def _write(path: Path, data: bytes) -> None:
    temp = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temp.write_bytes(data)
        temp.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temp.unlink()


def _held_to_json(held: Held) -> dict[str, Any]:
    return {
        "root": held.root,
        "model_id": held.model_id,
        "manifest_digest": held.manifest_digest,
        "files": [
            {
                "source": file.source,
                "size": file.size,
                "mtime_ns": file.mtime_ns,
                "path": file.path,
                "runs": runs_to_json(file.runs),
            }
            for file in held.files
        ],
    }


def read_held(path: Path) -> Held | None:
    """Return a note, ``None`` where it cannot be read."""
    try:
        value = json.loads(path.read_bytes())
        return Held(
            root=value["root"],
            model_id=value["model_id"],
            manifest_digest=value["manifest_digest"],
            files=tuple(_held_file(file) for file in value["files"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _held_file(value: dict[str, Any]) -> HeldFile:
    return HeldFile(
        source=value["source"],
        size=value["size"],
        mtime_ns=value["mtime_ns"],
        path=value["path"],
        runs=runs_from_json(value["runs"]),
    )


def runs_to_json(runs: Sequence[tuple[int, ByteRange]]) -> list[list[int]]:
    """Return the runs of a held file as JSON has them."""
    return [[offset, run.start, run.end] for offset, run in runs]


def runs_from_json(value: Any) -> tuple[tuple[int, ByteRange], ...]:
    """Return the runs of a held file.

    Raises:
        ValueError: or ``TypeError``; it is something else.
    """
    return tuple((int(offset), ByteRange(start, end)) for offset, start, end in value)
