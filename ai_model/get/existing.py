"""What lies in the output directory already, found out by hashing it."""

import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ai_model.cache import HeldFile
from ai_model.get.holdings import Holding, KnownManifests, noted_digests
from ai_model.get.outputs import Output
from ai_model.get.partial import Partial
from ai_model.get.place import Staging
from ai_model.get.plan import Piece, Place
from ai_model.get.targets import FileTarget
from ai_model.get.transfer import Transfer
from ai_model.progress import Phase
from ai_model.version import Version
from ai_model_format.digest import Digest


@dataclass(frozen=True, slots=True)
class Existing:
    """Files at the outputs' names.

    Attributes:
        kept: numbers of the outputs that are there, byte by byte.
        holdings: chunks that lie in the other files.
    """

    kept: frozenset[int]
    holdings: Mapping[Digest, Sequence[Holding]]


def check_existing(
    outputs: Sequence[Output], staging: Staging, version: Version, transfer: Transfer
) -> Existing:
    """Hash the files of the right size that are at the outputs' names."""
    paths = {n: staging.output / output.path for n, output in enumerate(outputs)}
    notes = _notes(staging, version) if any(path.exists() for path in paths.values()) else {}
    likely = {
        number: paths[number]
        for number, output in enumerate(outputs)
        if _is_file_of_size(paths[number], output.size)
        and not _is_other(output, notes.get(str(paths[number].resolve())), transfer.manifests)
    }
    with ExitStack() as stack:
        files = _open(likely, stack)
        wanted = [item for item in pieces_apart(outputs) if item[0].output in files]
        good = in_place(wanted, files, transfer)
        whole = frozenset(n for n, file in files.items() if literals_match(outputs[n], file))
    kept = whole - {place.output for place, _ in wanted if place not in good}
    holdings: dict[Digest, list[Holding]] = {}
    for place, piece in wanted:
        if place in good and place.output not in kept:
            holding = Holding(str(paths[place.output]), place.offset)
            holdings.setdefault(piece.digest, []).append(holding)
    return Existing(kept, holdings)


def check_partial(
    outputs: Sequence[Output], numbers: Iterable[int], partial: Partial, transfer: Transfer
) -> set[Place]:
    """Hash what an earlier run left in a partial."""
    if not partial.adopted:
        return set()
    files = {n: partial.file(n, outputs[n].size) for n in numbers if partial.has(n)}
    wanted = [item for item in pieces_apart(outputs) if item[0].output in files]
    return in_place(wanted, files, transfer)


def pieces_apart(outputs: Sequence[Output]) -> list[tuple[Place, Piece]]:
    """Return every chunk of every output on its own, equal ones too. Pure."""
    return [
        (place, Piece(chunk.digest, chunk.size, output.file, start, (place,)))
        for number, output in enumerate(outputs)
        for offset, index in output.chunks()
        for place in (Place(number, offset),)
        for chunk, start in ((output.file.chunks[index], output.file.chunk_starts[index]),)
    ]


def in_place(
    wanted: Sequence[tuple[Place, Piece]],
    files: Mapping[int, FileTarget],
    transfer: Transfer,
    *,
    phase: Phase = "reuse",
) -> set[Place]:
    """Return the places whose bytes are right already."""
    total = sum(piece.size for _, piece in wanted)
    return transfer.reuser(phase, total).in_place(wanted, files) if wanted else set()


def literals_match(output: Output, file: FileTarget) -> bool:
    """Say whether the bytes that are in no chunk, such as a subset's header, are right."""
    for offset, data in output.literals():
        found = bytearray(len(data))
        if not file.read_into(offset, memoryview(found)) or found != data:
            return False
    return True


def _notes(staging: Staging, version: Version) -> dict[str, tuple[HeldFile, Digest]]:
    """Return what the last get into this directory noted, by path."""
    root = str(staging.output.resolve())
    return {
        note.source: (note, held.manifest_digest)
        for held in version.cache.held(version.model_id)
        if held.root == root
        for note in held.files
        if note.is_unchanged()
    }


def _is_other(
    output: Output, noted: tuple[HeldFile, Digest] | None, manifests: KnownManifests
) -> bool:
    """Say whether a file is known to hold other chunks, so that hashing all of it is no use."""
    manifest = manifests.find(noted[1]) if noted else None
    if noted is None or manifest is None:
        return False
    wanted = {offset: output.file.chunks[index].digest for offset, index in output.chunks()}
    files = [file for file in manifest.files if file.path == noted[0].path]
    return not files or noted_digests(files[0], noted[0]) != wanted


def _open(paths: Mapping[int, Path], stack: ExitStack) -> dict[int, FileTarget]:
    files = {}
    for number, path in paths.items():
        try:
            files[number] = FileTarget(path, writable=False)
        except OSError:  # it will be replaced
            continue
        stack.callback(files[number].close)
    return files


def _is_file_of_size(path: Path, size: int) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size == size
