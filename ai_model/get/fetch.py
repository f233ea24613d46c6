"""Fetches ranges of objects, verifies each chunk as it arrives, writes it at its place.

An answer that is not exactly what was asked for is never used: not 206, another
``Content-Range``, encoded, shorter, or of another stored object. Bytes with the wrong
digest are asked for again, past every cache's copy, then past the edge where there is one, and
then given up.
"""

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache

import httpx

from ai_model.errors import CorruptBytes, UntrustedCertificate, service_problem
from ai_model.get.plan import Piece, RangeRequest
from ai_model.get.source import Address, ObjectMoved, Source
from ai_model.get.split import Ended, Splitter
from ai_model.get.targets import Target, settle
from ai_model.lanes import Lanes
from ai_model.progress import Meter
from ai_model.retry import (
    RETRIED_STATUSES,
    THROTTLED_STATUSES,
    Interrupted,
    Retrier,
    TryAgain,
    retry_after_s,
)
from ai_model.session import RequestCounter, Session
from ai_model.transport import read_into
from ai_model_format.byte_range import ByteRange, parse_content_range
from ai_model_format.digest import Digest

BUFFER_SIZE = 1024 * 1024
_TIMEOUT = httpx.Timeout(connect=15.0, read=20.0, write=20.0, pool=60.0)
_URL_REFUSED = frozenset({401, 403, 404, 410})
_REFETCH = {"cache-control": "no-cache"}


class Fetcher:
    """Fetches requests into targets. Safe to use from threads.

    Attributes:
        bytes_received: bodies, gaps and repeats included.
    """

    def __init__(
        self,
        session: Session,
        source: Source,
        targets: Sequence[Target],
        *,
        lanes: Lanes,
        counter: RequestCounter,
        meter: Meter,
        stopped: threading.Event,
    ) -> None:
        self.bytes_received = 0
        self._client = session.store
        self._bandwidth = session.bandwidth
        self._lanes = lanes
        self._source = source
        self._targets = targets
        self._counter = counter
        self._meter = meter
        self._stopped = stopped
        self._retrier = Retrier(session.policy, stopped=stopped, note=meter.note)
        self._local = threading.local()
        self._lock = threading.Lock()

    def fetch(self, request: RangeRequest) -> None:
        """Bring all pieces of a request.

        Raises:
            CorruptBytes: the store's bytes have another digest.
            NetworkError: nobody answers, or not as HTTP demands.
            ObjectMoved: the layout changed; plan again.
        """
        bad = self._fetch(request, _Progress(request.pieces))
        while bad:
            try:
                self._fetch_again(request.object, *bad[0])
            except ObjectMoved as error:
                error.left = [piece for _, piece in bad]
                raise
            del bad[0]

    def _fetch_again(self, digest: Digest, offset: int, piece: Piece) -> None:
        self._meter.note(f"A chunk of {piece.file.path} arrived damaged; asking again")
        again = RangeRequest(digest, ((offset, piece),))
        for past_edge in (False, True):  # an edge replaces its bad copy, or is passed by
            if not self._fetch(again, _Progress(again.pieces, _REFETCH, past_edge)):
                return
        raise CorruptBytes(piece.file.path, piece.tensors())

    def _fetch(self, request: RangeRequest, stream: "_Progress") -> list[tuple[int, Piece]]:
        """Fetch a request, going on behind the last whole piece when an answer breaks off.

        Returns:
            The pieces that arrived with another digest.
        """
        try:
            self._retrier.call(
                lambda: self._attempt(request, stream),
                what=f"Fetching {request.pieces[0][1].file.path}",
                on_failure=lambda: self._went_on(stream),
            )
        except ObjectMoved as error:
            error.left = [piece for _, piece in (*stream.bad, *stream.left)]
            raise
        return stream.bad

    def _went_on(self, stream: "_Progress") -> bool:
        if stream.throttled:
            self._lanes.throttled()
        return stream.went_on()

    def _attempt(self, request: RangeRequest, stream: "_Progress") -> None:
        address = self._source.address(request.object, past_edge=stream.past_edge)
        with (
            stream.noticing(),
            _passing_by(address),
            self._open(address, stream, request) as response,
        ):
            wanted = stream.range()
            splitter = Splitter(stream.left, start=wanted.start)
            etag = response.headers.get("etag", "")
            for data in self._receive(response, wanted.size):
                writes, ended = splitter.take(data)
                for write in writes:
                    target = self._targets[write.place.output]
                    target.write(write.place.offset, data[write.begin : write.end])
                for one in ended:
                    stream.done_one(one)
                    if one.good:
                        self._source.trust_etag(request.object, etag)
                        self._meter.add(one.piece.size)
                        settle(one.piece, self._targets)

    @contextmanager
    def _open(
        self, address: Address, stream: "_Progress", request: RangeRequest
    ) -> Iterator[httpx.Response]:
        if self._stopped.is_set():
            raise Interrupted
        self._counter.add()
        wanted = stream.range()
        asked = {"range": wanted.http_header(), "accept-encoding": "identity"}
        headers = {**asked, **stream.headers}
        url = _parsed(address.url)
        with self._client.stream("GET", url, headers=headers, timeout=_TIMEOUT) as response:
            if response.status_code in _URL_REFUSED:
                self._source.refused(address)
            check_answer(response, wanted, address.size)
            if not self._source.check_etag(request.object, response.headers.get("etag", "")):
                raise TryAgain("the answer is of another object than before")
            yield response

    def _receive(self, response: httpx.Response, size: int) -> Iterator[memoryview]:
        """Yield the next ``size`` bytes of a body in pieces that share one buffer."""
        buffer = self._buffer()
        while size:
            count = read_into(response, buffer[: self._bandwidth.piece(size)])
            if not count:
                raise TryAgain("the answer broke off")
            if self._stopped.is_set():
                raise Interrupted
            self._bandwidth.take(count, self._stopped.wait)
            with self._lock:
                self.bytes_received += count
            self._lanes.moved(count)
            size -= count
            yield buffer[:count]

    def _buffer(self) -> memoryview:
        if not hasattr(self._local, "buffer"):
            self._local.buffer = memoryview(bytearray(BUFFER_SIZE))
        buffer: memoryview = self._local.buffer
        return buffer


@lru_cache(maxsize=256)
def _parsed(url: str) -> httpx.URL:
    """Take a URL apart once: signed ones are long, and many ranges are asked of each."""
    return httpx.URL(url)


def check_answer(response: httpx.Response, wanted: ByteRange, object_size: int) -> None:
    """Check that an answer's head is exactly what was asked for.

    Raises:
        TryAgain: it is not, or the server is busy.
        ServiceProblem: the server refuses for good.
    """
    status = response.status_code
    if status != 206:
        raise _refusal(response, status)
    try:
        found, whole = parse_content_range(response.headers.get("content-range", ""))
    except ValueError as error:
        raise TryAgain(str(error)) from error
    if found != wanted or whole not in (None, object_size):
        raise TryAgain(f"asked for {wanted.http_header()} of {object_size}, got {found} of {whole}")
    if response.headers.get("content-encoding", "identity") != "identity":
        raise TryAgain("the answer is encoded although identity was asked for")
    if response.headers.get("content-length", str(wanted.size)) != str(wanted.size):
        raise TryAgain("the answer has another length than its range")


@contextmanager
def _passing_by(address: Address) -> Iterator[None]:
    """Try the origin where it is the edge whose certificate is not trusted."""
    try:
        yield
    except UntrustedCertificate as error:
        if not address.is_edge:
            raise
        raise TryAgain(str(error), final=error) from error


def _refusal(response: httpx.Response, status: int) -> Exception:
    reason = f"the store answered {status} to a request for a range"
    if response.is_success or response.is_redirect:
        return TryAgain(f"{reason}; a proxy on the way may not understand ranges")
    problem = service_problem(status, {"detail": f"Reading failed: {reason}."})
    if status in RETRIED_STATUSES or status in _URL_REFUSED:
        return TryAgain(
            reason,
            retry_after_s=retry_after_s(response),
            final=problem,
            throttled=status in THROTTLED_STATUSES,
        )
    return problem


class _Progress:
    """How far a request is, over all its tries.

    Attributes:
        left: pieces that are still wanted.
        headers: sent besides the usual ones.
        past_edge: the next try goes to the origin. An edge that brings nothing is passed by;
            one that has to slow down is not, because the origin is where it is crowded.
        bad: pieces that arrived with another digest.
        throttled: the last try failed because there are too many requests.
    """

    def __init__(
        self,
        pieces: Sequence[tuple[int, Piece]],
        headers: Mapping[str, str] | None = None,
        past_edge: bool = False,
    ) -> None:
        self.left = deque(pieces)
        self.headers = headers or {}
        self.past_edge = past_edge
        self.bad: list[tuple[int, Piece]] = []
        self.throttled = False
        self._done = 0
        self._done_before = 0

    def range(self) -> ByteRange:
        """Return the bytes that are still wanted."""
        offset, piece = self.left[-1]
        return ByteRange(self.left[0][0], offset + piece.size)

    def done_one(self, ended: Ended) -> None:
        """Count the first piece that is left as received."""
        self.left.popleft()
        self._done += 1
        if not ended.good:
            self.bad.append((ended.offset, ended.piece))

    def went_on(self) -> bool:
        """Say whether pieces were received since this was asked last."""
        went_on, self._done_before = self._done > self._done_before, self._done
        self.past_edge = self.past_edge or not (went_on or self.throttled)
        return went_on

    @contextmanager
    def noticing(self) -> Iterator[None]:
        """Notice whether a try failed because there are too many requests."""
        self.throttled = False
        try:
            yield
        except TryAgain as error:
            self.throttled = error.throttled
            raise
