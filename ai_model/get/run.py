"""Bring a version, or parts of it, into a directory. Kill it anywhere; run again, it goes on."""

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ai_model.cache import Held, HeldFile
from ai_model.errors import DiskFull, IntegrityError, NetworkError
from ai_model.get.existing import Existing, check_existing, check_partial
from ai_model.get.follow import Follower, Followers
from ai_model.get.holdings import Holding
from ai_model.get.outputs import Output
from ai_model.get.partial import Partial, open_partial, remove_abandoned
from ai_model.get.place import Staging
from ai_model.get.plan import Piece, Place, bytes_placed, pieces_of
from ai_model.get.receipt import merge_receipt
from ai_model.get.select import Selection, select
from ai_model.get.targets import FileTarget, Target, disk_trouble, free_bytes
from ai_model.get.transfer import MAX_HASHING_WORKERS, Transfer
from ai_model.parallel import run_parallel
from ai_model.progress import OnProgress
from ai_model.results import GetResult, GotFile
from ai_model.version import Version
from ai_model_format.digest import Digest
from ai_model_format.manifest import canonical_json

KEPT = "What was fetched is kept; run it again to go on."


def get(
    version: Version,
    selection: Selection,
    output: Path,
    *,
    reuse: Sequence[Path] = (),
    on_progress: OnProgress | None,
) -> GetResult:
    """Select, plan, fetch, verify, and put everything in place at once.

    Args:
        version: to bring.
        selection: of it.
        output: directory.
        reuse: other directories that gets wrote, perhaps on other machines, to copy from.
        on_progress: told how far it is.

    Raises:
        AiModelError: see ``Registry.get``.
    """
    started = time.monotonic()
    chosen = select(version.manifest, selection, version.resolved.groups)
    transfer = Transfer(version, on_progress, nearby=[output, *reuse])
    staging = Staging(output)
    try:
        with staging.lock(transfer.meter("fetch", 0).note):
            try:
                staging.check_paths([item.file.path for item in chosen])
                outputs = transfer.outputs(chosen)
                job = _Job(version, selection, staging, transfer, outputs)
                return job.run(started)
            finally:
                staging.remove_if_empty()
    except OSError as error:
        raise disk_trouble(output, error, needed=1) from error


class _Job:
    """One get, once it is known what each output is made of."""

    def __init__(
        self,
        version: Version,
        selection: Selection,
        staging: Staging,
        transfer: Transfer,
        outputs: Sequence[Output],
    ) -> None:
        self._version = version
        self._selection = selection
        self._staging = staging
        self._transfer = transfer
        self._outputs = outputs
        self._pieces = pieces_of(outputs)
        self._bytes_reused = 0
        self._bytes_before = 0

    def run(self, started: float) -> GetResult:
        """Bring the outputs and say what it took."""
        existing = check_existing(self._outputs, self._staging, self._version, self._transfer)
        missing = [n for n in range(len(self._outputs)) if n not in existing.kept]
        digests: dict[int, Digest] = {}
        if missing:
            digests = self._write(missing, existing)
        else:
            self._bytes_reused = sum(output.size for output in self._outputs)
        files = [self._got(number, digests) for number in range(len(self._outputs))]
        notes = (*_warnings(self._version), *self._note_down(files))
        return GetResult(
            model_id=self._version.model_id,
            version=self._version.name,
            manifest_digest=self._version.digest,
            output=self._staging.output,
            files=tuple(files),
            bytes_selected=sum(output.size for output in self._outputs),
            bytes_fetched=self._transfer.bytes_fetched,
            bytes_reused=self._bytes_reused,
            requests=self._transfer.requests,
            elapsed_s=time.monotonic() - started,
            notes=notes,
        )

    def _write(self, missing: Sequence[int], existing: Existing) -> dict[int, Digest]:
        """Fill the outputs that are not there yet, and put them in place.

        Returns:
            The digest of each output that is a part of a file.
        """
        partial = open_partial(self._staging.directory, self._key())
        try:
            with Followers() as followers:
                files = self._fill(partial, missing, existing, followers)
                digests = self._settle(files)
            finished = [(partial.path(n), self._outputs[n].path) for n in missing]
            self._staging.put_in_place(finished)
        except IntegrityError:
            partial.remove()
            raise
        except BaseException as error:
            self._keep(partial, error)
            raise
        partial.remove()
        remove_abandoned(self._staging.directory)
        return digests

    def _fill(
        self,
        partial: Partial,
        missing: Sequence[int],
        existing: Existing,
        followers: Followers,
    ) -> dict[int, FileTarget]:
        self._check_room(partial, missing)
        good = check_partial(self._outputs, missing, partial, self._transfer)
        files = {number: partial.file(number, self._outputs[number].size) for number in missing}
        self._begin(files, good, followers)
        self._bytes_before = 0 if partial.adopted else partial.bytes_allocated()
        wanted = _still_wanted(self._pieces, set(missing), good)
        found = self._holdings(wanted, existing)
        targets = _by_number(files, len(self._outputs))
        self._bytes_reused = bytes_placed(self._pieces) - bytes_placed(wanted)
        self._bytes_reused += self._transfer.bring(wanted, found, targets)
        return files

    def _begin(
        self, files: Mapping[int, FileTarget], good: set[Place], followers: Followers
    ) -> None:
        """Write what is known before any piece, and have parts of files hashed from there on.

        The manifest has no digest of a part of a file.
        """
        for number, file in files.items():
            if not self._outputs[number].complete:
                file.follow(followers)
            for offset, data in self._outputs[number].literals():
                file.write(offset, memoryview(data))
                file.settle(offset, len(data))
        for piece in self._pieces:
            for place in piece.places:
                if place in good:
                    files[place.output].settle(place.offset, piece.size)

    def _settle(self, files: Mapping[int, FileTarget]) -> dict[int, Digest]:
        """Make files durable, several at a time.

        Returns:
            The digest of each that is a part of a file: the manifest has none.
        """
        digests: dict[int, Digest] = {}

        def work(number: int) -> None:
            digest = files[number].digest()
            if digest is not None:
                digests[number] = digest
            files[number].sync()

        stopped = self._transfer.stopped
        run_parallel(files, work, workers=MAX_HASHING_WORKERS, stopped=stopped)
        return digests

    def _holdings(
        self, wanted: Sequence[Piece], existing: Existing
    ) -> Mapping[Digest, Sequence[Holding]]:
        """Return where pieces lie: in the files that are replaced, or elsewhere."""
        elsewhere = [piece for piece in wanted if piece.digest not in existing.holdings]
        noted = self._transfer.holdings(elsewhere) if elsewhere else {}
        return {**noted, **existing.holdings}

    def _check_room(self, partial: Partial, missing: Sequence[int]) -> None:
        """Raise ``DiskFull`` before anything is transferred."""
        needed = sum(self._outputs[number].size for number in missing) - partial.bytes_allocated()
        free = free_bytes(partial.directory)
        if needed > free:
            raise DiskFull(self._staging.output, needed=needed, free=free)

    def _keep(self, partial: Partial, error: BaseException) -> None:
        """Leave a partial to the next run, and say so, if anything is in it."""
        self._transfer.stopped.set()
        if partial.bytes_allocated() <= self._bytes_before:
            partial.remove()
            return
        partial.release()
        if isinstance(error, NetworkError):
            error.way_out = KEPT
        elif isinstance(error, KeyboardInterrupt):
            error.add_note(KEPT)

    def _key(self) -> str:
        """Name what is planned, so that only a run with the same plan adopts its partial."""
        plan = [self._version.digest, self._selection.to_json(), self._version.resolved.groups]
        return hashlib.sha256(canonical_json(plan)).hexdigest()[:24]

    def _got(self, number: int, digests: Mapping[int, Digest]) -> GotFile:
        output = self._outputs[number]
        if output.complete:
            digest = output.file.sha256
        else:
            digest = digests.get(number) or _digest_of_path(
                self._staging.output / output.path, output.size
            )
        return GotFile(output.path, output.size, digest, output.complete)

    def _note_down(self, files: Sequence[GotFile]) -> tuple[str, ...]:
        """Write the receipt, and note for later gets what lies here."""
        held = [self._held(output) for output in self._outputs]
        before = self._staging.read_receipt()
        receipt, left_over = merge_receipt(
            before, self._version, self._selection, list(zip(files, held, strict=True))
        )
        if receipt != before:
            self._staging.write_receipt(receipt)
        root = str(self._staging.output.resolve())
        self._version.cache.remember(
            Held(root, self._version.model_id, self._version.digest, tuple(held))
        )
        return tuple(
            f"{path} is left from an earlier get of another version."
            for path in left_over
            if (self._staging.output / path).exists()
        )

    def _held(self, output: Output) -> HeldFile:
        path = self._staging.output.resolve() / output.path
        mtime_ns = path.stat().st_mtime_ns
        return HeldFile(str(path), output.size, mtime_ns, output.path, tuple(output.runs()))


def _still_wanted(pieces: Sequence[Piece], missing: set[int], good: set[Place]) -> list[Piece]:
    """Return the pieces with the places that they are still to be written to. Pure."""
    wanted = []
    for piece in pieces:
        places = tuple(p for p in piece.places if p.output in missing and p not in good)
        if places:
            wanted.append(replace(piece, places=places))
    return wanted


def _by_number(files: Mapping[int, FileTarget], count: int) -> list[Target]:
    """Arrange targets by the number of their output; outputs that are kept get no writes."""
    anything = next(iter(files.values()))
    return [files.get(number, anything) for number in range(count)]


def _digest_of_path(path: Path, size: int) -> Digest:
    file = FileTarget(path, writable=False)
    try:
        return Follower(file.read_into, size).finish()
    finally:
        file.close()


def _warnings(version: Version) -> Iterator[str]:
    if version.resolved.yanked:
        reason = version.resolved.yank_reason
        yield f"{version.model_id} {version.name} is marked as not to be used: {reason}."
