"""Sends objects in parts, in parallel, going on where an earlier run stopped.

Parts that the store holds are skipped and URLs are signed anew before they
expire. Must not decide what to send: that is ``plan``.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import cast

import httpx

from ai_model.api import Api
from ai_model.errors import service_problem
from ai_model.lanes import Lanes
from ai_model.parallel import run_parallel
from ai_model.progress import Meter
from ai_model.push.plan import PlannedObject
from ai_model.push.read import PIECE_SIZE, PartBody, object_digest
from ai_model.push.scan import LocalFile
from ai_model.retry import (
    RETRIED_STATUSES,
    THROTTLED_STATUSES,
    Retrier,
    TryAgain,
    retry_after_s,
)
from ai_model_format import wire
from ai_model_format.byte_range import ByteRange

_UPLOADS_A_REQUEST = 200
_TARGETS_A_REQUEST = 100
_SIGN_ANEW = timedelta(seconds=60)
_PRECONDITION_FAILED = 412


@dataclass(frozen=True, slots=True)
class _Part:
    """A part to send."""

    planned: PlannedObject
    upload_id: str
    target: wire.PartTarget
    expires_at: datetime | None


class Uploader:
    """Sends the objects of one push."""

    def __init__(
        self, api: Api, push_id: str, files: Mapping[str, LocalFile], meter: Meter
    ) -> None:
        self.bytes_sent = 0
        self._api = api
        self._push_id = push_id
        self._files = files
        self._meter = meter
        self._stopped = threading.Event()
        self._bandwidth = api.session.bandwidth
        self._lanes = Lanes(api.connections)
        self._lock = threading.Lock()
        self._retrier = Retrier(api.policy, stopped=self._stopped, note=meter.note)

    def send(self, objects: Sequence[PlannedObject]) -> None:
        """Send every part that the store lacks.

        Raises:
            FileChanged: a file changed since it was hashed.
            ServiceProblem: the service or the store refuses.
            NetworkError: they cannot be reached.
        """
        run_parallel(
            self._parts(objects),
            self._send_part,
            workers=lambda: self._lanes.open,
            stopped=self._stopped,
        )

    def _parts(self, objects: Sequence[PlannedObject]) -> Iterator[_Part]:
        for start in range(0, len(objects), _UPLOADS_A_REQUEST):
            batch = objects[start : start + _UPLOADS_A_REQUEST]
            requests = [_upload_request(planned, self._files) for planned in batch]
            uploads = self._api.begin_uploads(self._push_id, requests)
            for planned, upload in zip(batch, uploads, strict=True):
                yield from self._parts_of(planned, upload)

    def _parts_of(self, planned: PlannedObject, upload: wire.UploadInfo) -> Iterator[_Part]:
        """Yield the parts that are missing, asking for URLs a hundred at a time."""
        if upload.state == "stored":
            self._meter.add(upload.size)
            return
        stored = set(upload.parts_stored)
        known = {target.part_number: target for target in upload.targets}
        count = -(-upload.size // upload.part_size)
        missing = [number for number in range(1, count + 1) if number not in stored]
        self._meter.add(sum(_part_range(upload, number).size for number in stored))
        expires_at = upload.expires_at
        for at, number in enumerate(missing):
            if number not in known or _expires_soon(expires_at):
                asked = missing[at : at + _TARGETS_A_REQUEST]
                answer = self._api.targets(self._push_id, upload.upload_id, asked)
                known = {target.part_number: target for target in answer.targets}
                expires_at = answer.expires_at
            yield _Part(planned, upload.upload_id, known[number], expires_at)

    def _send_part(self, part: _Part) -> None:
        signed = _Signed(self._api, self._push_id, part)
        self._retrier.call(
            lambda: self._put(part, signed),
            what=f"Sending part {part.target.part_number}",
            on_failure=lambda: self._went_on(signed),
        )
        with self._lock:
            self.bytes_sent += part.target.size

    def _went_on(self, signed: "_Signed") -> bool:
        """A part that failed begins anew, so it never got further."""
        if signed.throttled:
            self._lanes.throttled()
        return False

    def _put(self, part: _Part, signed: "_Signed") -> None:
        """Send a part once."""
        target = signed.target()
        wanted = ByteRange(target.offset, target.offset + target.size)
        metered = _Metered(self._meter)

        def send(size: int) -> None:
            self._bandwidth.take(size, self._stopped.wait)
            self._lanes.moved(size)
            metered.add(size)

        slices = part.planned.slices(wanted)
        body = PartBody(self._files, slices, send, self._bandwidth.piece(PIECE_SIZE))
        try:
            response = self._api.session.store.put(
                target.url,
                content=cast("Iterable[bytes]", body),  # memoryviews do for a socket
                headers={**target.headers, "content-length": str(target.size)},
            )
            _check_stored(response, signed)
        except BaseException:
            metered.take_back()
            raise


class _Signed:
    """A part's URL, signed anew when it is about to expire or was refused.

    Attributes:
        refused: the store did not take the last URL.
        throttled: the store had too many requests the last time.
    """

    def __init__(self, api: Api, push_id: str, part: _Part) -> None:
        self.refused = False
        self.throttled = False
        self._api = api
        self._push_id = push_id
        self._upload_id = part.upload_id
        self._target = part.target
        self._expires_at = part.expires_at

    @property
    def only_if_absent(self) -> bool:
        """Whether the store takes the part only where it does not hold it yet."""
        return any(name.lower() == "if-none-match" for name in self._target.headers)

    def target(self) -> wire.PartTarget:
        """Return where to send the part now."""
        if self.refused or _expires_soon(self._expires_at):
            numbers = [self._target.part_number]
            answer = self._api.targets(self._push_id, self._upload_id, numbers)
            self._target, self._expires_at = answer.targets[0], answer.expires_at
            self.refused = False
        return self._target


class _Metered:
    """Counts one try, so that it can be taken back."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._size = 0

    def add(self, size: int) -> None:
        self._size += size
        self._meter.add(size)

    def take_back(self) -> None:
        self._meter.add(-self._size)


def _check_stored(response: httpx.Response, signed: _Signed) -> None:
    status = response.status_code
    if response.is_success or (status == _PRECONDITION_FAILED and signed.only_if_absent):
        return  # 412: an earlier try arrived, its answer did not; the service reads what is there
    try:
        body = response.json()
    except ValueError:
        body = {"detail": f"The store answered {status} to a part: {response.text[:300]}"}
    problem = service_problem(status, body if isinstance(body, dict) else {})
    signed.refused = status == 403
    signed.throttled = status in THROTTLED_STATUSES
    if status == 403 or status in RETRIED_STATUSES:
        raise TryAgain(
            f"the store answered {status}",
            retry_after_s=retry_after_s(response),
            final=problem,
            throttled=status in THROTTLED_STATUSES,
        )
    raise problem


def _upload_request(planned: PlannedObject, files: Mapping[str, LocalFile]) -> wire.UploadRequest:
    return wire.UploadRequest(
        digest=object_digest(planned, files),
        size=planned.size,
        contents=[
            wire.UploadContent(
                path=content.path,
                first_chunk=content.first_chunk,
                last_chunk=content.last_chunk,
            )
            for content in planned.contents
        ],
    )


def _part_range(upload: wire.UploadInfo, number: int) -> ByteRange:
    start = (number - 1) * upload.part_size
    return ByteRange(start, max(start, min(start + upload.part_size, upload.size)))


def _expires_soon(expires_at: datetime | None) -> bool:
    return expires_at is not None and expires_at - datetime.now(UTC) < _SIGN_ANEW
