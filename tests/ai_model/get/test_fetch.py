"""What a broken answer leaves to be fetched, with a real server and an address that goes away."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from ai_model.config import Config
from ai_model.get.fetch import Fetcher
from ai_model.get.plan import Piece, Place, RangeRequest
from ai_model.get.source import Address, ObjectMoved
from ai_model.get.targets import MemoryTarget
from ai_model.lanes import Lanes
from ai_model.progress import Meter
from ai_model.retry import RetryPolicy
from ai_model.session import RequestCounter, Session
from ai_model_format.digest import digest_of
from ai_model_format.manifest import File

SIZE, COUNT = 1000, 10
CONTENT = os.urandom(SIZE * COUNT)
FILE = File("f", len(CONTENT), digest_of(CONTENT), "x/x", "opaque", ())
QUICK = RetryPolicy(tries=3, base_s=0.01, cap_s=0.05, patience_s=5)


class Noted(MemoryTarget):
    """Remembers what was said to be final."""

    def __init__(self) -> None:
        super().__init__(len(CONTENT))
        self.settled: list[int] = []

    def settle(self, offset: int, size: int) -> None:
        assert self.data[offset : offset + size] == CONTENT[offset : offset + size]
        self.settled.append(offset)


class MovingSource:
    """Knows an address for some requests; then the object lies elsewhere."""

    def __init__(self, url: str, *, requests: int) -> None:
        self.url, self.requests = url, requests

    def address(self, _digest: str, *, past_edge: bool = False) -> Address:
        self.requests -= 1
        if self.requests < 0:
            raise ObjectMoved
        return Address(self.url, len(CONTENT), 1)

    def check_etag(self, *_: object) -> bool:
        return True

    def trust_etag(self, *_: object) -> None:
        pass

    def refused(self, _address: Address) -> None:
        pass


@contextmanager
def serving(bodies: list[bytes]) -> Iterator[str]:
    """Answer each request with the next body, cut to its range; a short one breaks off."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            first, last = map(int, self.headers["range"].removeprefix("bytes=").split("-"))
            self.send_response(206)
            self.send_header("content-length", str(last - first + 1))
            self.send_header("content-range", f"bytes {first}-{last}/{len(CONTENT)}")
            self.end_headers()
            self.wfile.write(bodies.pop(0)[first : last + 1])

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/object"
        server.shutdown()


def fetch(url: str, target: Noted, *, requests: int) -> None:
    session = Session(Config(url, None, Path()), policy=QUICK)
    fetcher = Fetcher(
        session,
        MovingSource(url, requests=requests),
        [target],
        lanes=Lanes(1),
        counter=RequestCounter(),
        meter=Meter("fetch", len(CONTENT), None),
        stopped=threading.Event(),
    )
    pieces = tuple(
        (at, Piece(digest_of(CONTENT[at : at + SIZE]), SIZE, FILE, at, (Place(0, at),)))
        for at in range(0, len(CONTENT), SIZE)
    )
    try:
        fetcher.fetch(RangeRequest("object", pieces))
    finally:
        session.close()


def test_an_answer_that_breaks_off_goes_on_behind_its_last_whole_piece():
    target = Noted()
    with serving([CONTENT[:2500], CONTENT[:7000], CONTENT]) as url:
        fetch(url, target, requests=3)
    assert bytes(target.data) == CONTENT
    assert target.settled == list(range(0, len(CONTENT), SIZE))


def test_what_arrived_before_an_object_moved_is_not_left():
    target = Noted()
    with serving([CONTENT[:2500]]) as url, pytest.raises(ObjectMoved) as caught:
        fetch(url, target, requests=1)
    assert target.settled == [0, 1000]
    assert [piece.start for piece in caught.value.left] == list(range(2000, 10_000, SIZE))


def test_a_damaged_piece_is_settled_once_it_was_repaired():
    damaged = bytearray(CONTENT)
    damaged[3500] ^= 1
    target = Noted()
    with serving([bytes(damaged), CONTENT]) as url:
        fetch(url, target, requests=2)
    assert bytes(target.data) == CONTENT
    assert target.settled == [at for at in range(0, 10_000, SIZE) if at != 3000] + [3000]


def test_damaged_pieces_are_left_when_the_object_moves_before_their_repair():
    damaged = bytearray(CONTENT)
    damaged[3500] ^= 1
    damaged[5500] ^= 1
    with serving([bytes(damaged), CONTENT]) as url, pytest.raises(ObjectMoved) as caught:
        fetch(url, Noted(), requests=2)
    assert [piece.start for piece in caught.value.left] == [5000]
