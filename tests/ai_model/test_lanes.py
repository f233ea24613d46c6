"""Connections follow what the network gives; the clock is ours, so nothing depends on speed."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ai_model.bandwidth import MIN_RATE, Bandwidth, parse_rate
from ai_model.lanes import MOST, START, WINDOW_S, Lanes
from ai_model.parallel import run_parallel


class Network:
    """A network whose rate depends on the lanes, and a clock that moving bytes moves."""

    def __init__(self, rate_of_lanes):
        self.now = 100.0
        self.rate_of_lanes = rate_of_lanes

    def clock(self) -> float:
        return self.now

    def run(self, lanes: Lanes, *, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now += WINDOW_S / 10
            lanes.moved(int(self.rate_of_lanes(lanes.open) * WINDOW_S / 10))


def settled(rate_of_lanes, fixed=None) -> int:
    network = Network(rate_of_lanes)
    lanes = Lanes(fixed, clock=network.clock)
    network.run(lanes, seconds=10)
    return lanes.open


@pytest.mark.parametrize(
    ("rate_of_lanes", "wanted"),
    [
        (lambda n: 86e6 * n, MOST),  # each waits for the network most of its time
        (lambda _: 1.2e9, START),  # the processor is the limit
        (lambda n: min(86e6 * n, 700e6), 8),  # a link of 700 MB/s
        (lambda n: min(86e6 * n, 1000e6), 16),
        (lambda n: 1.2e9 / n, START),  # more make it worse
    ],
)
def test_lanes_open_as_long_as_they_bring_something(rate_of_lanes, wanted):
    assert settled(rate_of_lanes) == wanted


def test_a_number_that_was_asked_for_stands():
    assert settled(lambda n: 86e6 * n, fixed=3) == 3


def test_a_store_that_throttles_halves_the_lanes_for_good():
    network = Network(lambda n: 86e6 * n)
    lanes = Lanes(clock=network.clock)
    network.run(lanes, seconds=2 * WINDOW_S)
    before = lanes.open
    lanes.throttled()
    network.run(lanes, seconds=10)
    assert lanes.open == before // 2
    for _ in range(10):
        lanes.throttled()
    assert lanes.open == 1


@pytest.mark.parametrize("path", [[1, 1, 6, 6], [6, 1, 1, 1], [2, 4, 8, 3]])
def test_threads_follow_the_lanes_and_every_task_is_done_once(path):
    done: list[int] = []
    at_once: list[int] = []
    lock = threading.Lock()
    running = [0]
    wanted = path[0]

    def work(task: int) -> None:
        nonlocal wanted
        with lock:
            running[0] += 1
            at_once.append(running[0])
            wanted = path[min(len(done) * len(path) // 400, len(path) - 1)]
        threading.Event().wait(0.002)
        with lock:
            running[0] -= 1
            done.append(task)

    run_parallel(range(400), work, workers=lambda: wanted, stopped=threading.Event())
    assert sorted(done) == list(range(400))
    assert 1 < max(at_once) <= max(path)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("1000000", 10**6),
        ("50MB", 50 * 10**6),
        ("50MB/s", 50 * 10**6),
        ("1.5 GB", 1_500_000_000),
        ("512KiB", 512 * 1024),
        ("512kB", 512_000),
        ("400Mbit", 50_000_000),
        ("2G", 2 * 10**9),
    ],
)
def test_rates_are_read(text, rate):
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["", "fast", "-5MB", "5TB", "1e9", "nan", "0", "10", "50MB/min"])
def test_what_is_no_rate_is_refused(text):
    with pytest.raises(ValueError, match=r"rate|less"):
        parse_rate(text)


@given(st.integers(MIN_RATE, 10**9), st.lists(st.integers(1, 2**20), min_size=1, max_size=50))
def test_the_bucket_never_lets_more_through_than_its_rate(rate, sizes):
    now = [1000.0]

    def wait(seconds: float) -> None:
        now[0] += seconds

    bucket = Bandwidth(rate, clock=lambda: now[0])
    for size in sizes:
        bucket.take(size, wait)
    elapsed_s = now[0] - 1000.0
    assert sum(sizes) <= rate * (elapsed_s + 0.25) + 1
    assert elapsed_s <= sum(sizes) / rate + 1e-6


def test_without_a_limit_nothing_waits():
    bucket = Bandwidth(None)
    bucket.take(10**12, pytest.fail)
    assert bucket.piece(2**20) == 2**20
