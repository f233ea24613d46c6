"""Brings pieces to their targets: from this machine where they are held, else from the store."""

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from ai_model.cache import Held
from ai_model.errors import AiModelError
from ai_model.get.fetch import Fetcher
from ai_model.get.holdings import Holding, KnownManifests, find_holdings
from ai_model.get.outputs import Output, make_output, structure_of
from ai_model.get.plan import (
    LayoutDoesNotFit,
    Piece,
    RangeRequest,
    bytes_placed,
    pieces_of,
    plan_requests,
)
from ai_model.get.receipt import held_in
from ai_model.get.reuse import Reuser
from ai_model.get.select import Chosen
from ai_model.get.source import ObjectMoved, Source
from ai_model.get.targets import MemoryTarget, Target
from ai_model.lanes import START, Lanes
from ai_model.parallel import run_parallel
from ai_model.progress import Meter, OnProgress, Phase
from ai_model.version import Version
from ai_model_format.byte_range import ByteRange, merge_ranges
from ai_model_format.digest import Digest
from ai_model_format.formats.interface import SourceRange

MAX_STRUCTURE_SIZE = 512 * 1024 * 1024
MAX_HASHING_WORKERS = 4
_ROUNDS = 3

Holdings = Mapping[Digest, Sequence[Holding]]


class Transfer:
    """All that moves for one get or verify.

    Attributes:
        bytes_fetched: received, gaps and repeats included.
        manifests: of versions that lie on this machine.
    """

    def __init__(
        self,
        version: Version,
        on_progress: OnProgress | None,
        *,
        nearby: Sequence[Path] = (),
    ) -> None:
        self.bytes_fetched = 0
        self.stopped = threading.Event()
        self._version = version
        self._nearby = nearby
        self._api = version.api.counting_anew()
        self.manifests = KnownManifests(version, self._api)
        self._source = Source(self._api, version.model_id, version.name, version.manifest)
        self._on_progress = on_progress

    @property
    def requests(self) -> int:
        """HTTP requests sent so far, those that resolved the version included."""
        return self._api.counter.count + self._version.api.counter.count

    def meter(self, phase: Phase, total: int) -> Meter:
        """Return a meter that reports to whoever asked for this transfer."""
        return Meter(phase, total, self._on_progress)

    def reuser(self, phase: Phase, total: int) -> Reuser:
        """Return what reads and hashes local files."""
        workers = min(MAX_HASHING_WORKERS, os.cpu_count() or 1)
        return Reuser(workers=workers, meter=self.meter(phase, total), stopped=self.stopped)

    def holdings(self, pieces: Iterable[Piece]) -> dict[Digest, list[Holding]]:
        """Return where pieces lie on this machine."""
        wanted = {piece.digest for piece in pieces}
        if not wanted:
            return {}
        notes = chain(self._held_nearby(), self._version.cache.held(self._version.model_id))
        return find_holdings(notes, wanted, self.manifests)

    def _held_nearby(self) -> Iterator[Held]:
        """Yield what directories hold that other machines may have written."""
        for directory in self._nearby:
            held = held_in(directory)
            if held is not None and self.manifests.obtain(held.model_id, held.manifest_digest):
                yield held

    def outputs(self, chosen: Sequence[Chosen]) -> list[Output]:
        """Say what the outputs are made of, bringing the structure that this needs."""
        needed = [_structure_output(item) for item in chosen if structure_of(item)]
        if sum(output.size for output in needed) > MAX_STRUCTURE_SIZE:
            raise AiModelError("The structure of these files is too large to be read.")
        memory = [MemoryTarget(output.size) for output in needed]
        pieces = pieces_of(needed)
        self.bring(pieces, self.holdings(pieces), memory)
        read = _Structure(needed, memory).read
        return [make_output(item, read) for item in chosen]

    def bring(self, pieces: Sequence[Piece], holdings: Holdings, targets: Sequence[Target]) -> int:
        """Write every piece to its places, copying what is here while the rest is fetched.

        Returns:
            How many bytes were written that came from this machine.

        Raises:
            CorruptBytes: the store's bytes have another digest.
            NetworkError: the store cannot be reached.
        """
        held = [piece for piece in pieces if piece.digest in holdings]
        wanted = [piece for piece in pieces if piece.digest not in holdings]
        lost: list[Piece] = []

        def copy() -> None:
            total = sum(piece.size for piece in held)
            lost.extend(self.reuser("reuse", total).copy(held, holdings, targets))

        def fetch() -> None:
            self._fetch(wanted, targets)

        if held and wanted:
            run_parallel((copy, fetch), lambda job: job(), workers=2, stopped=self.stopped)
        elif held:
            copy()
        else:
            fetch()
        self._fetch(lost, targets)
        return bytes_placed(held) - bytes_placed(lost)

    def _fetch(self, pieces: Sequence[Piece], targets: Sequence[Target]) -> None:
        meter = self.meter("fetch", sum(piece.size for piece in pieces))
        for _ in range(_ROUNDS):
            if not pieces:
                return
            pieces = self._fetch_round(pieces, targets, meter)
        raise AiModelError("The registry moves this version's bytes while they are read.")

    def _fetch_round(
        self, pieces: Sequence[Piece], targets: Sequence[Target], meter: Meter
    ) -> list[Piece]:
        """Fetch pieces by the layout of now.

        Returns:
            The pieces whose objects went away meanwhile.
        """
        lanes = Lanes(self._api.connections)
        fetcher = Fetcher(
            self._api.session,
            self._source,
            targets,
            lanes=lanes,
            counter=self._api.counter,
            meter=meter,
            stopped=self.stopped,
        )
        moved: list[Piece] = []

        def work(request: RangeRequest) -> None:
            try:
                fetcher.fetch(request)
            except ObjectMoved as error:
                moved.extend(error.left)

        requests = self._plan(pieces)
        try:
            run_parallel(requests, work, workers=lambda: lanes.open, stopped=self.stopped)
        finally:
            self.bytes_fetched += fetcher.bytes_received
        return moved

    def _plan(self, pieces: Sequence[Piece]) -> list[RangeRequest]:
        layout = self._source.layout([piece.file.path for piece in pieces])
        try:
            return plan_requests(pieces, layout, connections=self._api.connections or START)
        except LayoutDoesNotFit as error:
            raise AiModelError(f"The registry's layout is wrong: {error}.") from error


class _Structure:
    """Structure in memory, read by range."""

    def __init__(self, outputs: Sequence[Output], memory: Sequence[MemoryTarget]) -> None:
        self._parts: dict[str, list[tuple[ByteRange, int, bytearray]]] = {
            output.path: [(run, offset, target.data) for offset, run in output.runs()]
            for output, target in zip(outputs, memory, strict=True)
        }

    def read(self, path: str, start: int, end: int) -> bytes:
        """Return bytes of a file's structure."""
        wanted = ByteRange(start, end)
        for run, offset, data in self._parts.get(path, ()):
            if wanted in run:
                at = offset + start - run.start
                return bytes(data[at : at + wanted.size])
        if not wanted.size:
            return b""
        raise AiModelError(f"Bytes {start} to {end} of {path!r} are not among its structure.")


def _structure_output(chosen: Chosen) -> Output:
    parts = merge_ranges(structure_of(chosen), max_gap=0)
    segments = tuple(SourceRange(part) for part in parts)
    return Output(chosen.file.path, chosen.file, segments, complete=False)
