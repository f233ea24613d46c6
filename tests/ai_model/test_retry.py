"""When and how patiently things are tried again."""

import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ai_model.errors import NetworkError, ServiceUnavailable
from ai_model.retry import Interrupted, Retrier, RetryPolicy, TryAgain, retry_after_s

QUICK = RetryPolicy(tries=3, base_s=0.001, cap_s=0.002)


def failing(times: int, error: Exception):
    left = [times]

    def attempt() -> str:
        left[0] -= 1
        if left[0] >= 0:
            raise error
        return "done"

    return attempt


def call(attempt, *, policy=QUICK, on_failure=lambda: False, stopped=None):
    return Retrier(policy, stopped=stopped).call(attempt, what="It", on_failure=on_failure)


@given(st.integers(1, 100), st.floats(0, 1), st.none() | st.floats(0, 1000))
def test_pauses_grow_to_a_cap_and_keep_to_what_is_asked(failures, jitter, asked):
    policy = RetryPolicy()
    pause = policy.pause_s(failures, asked, jitter=jitter)
    if asked is None:
        assert 0 < pause <= policy.cap_s
    else:
        assert asked <= pause <= asked + 1


def test_tries_again_until_it_works():
    assert call(failing(2, httpx.ConnectError("refused"))) == "done"


def test_gives_up_with_a_network_error():
    with pytest.raises(NetworkError, match="failed 3 times: refused") as caught:
        call(failing(3, httpx.ConnectError("refused")))
    assert caught.value.exit_code == 7


def test_progress_renews_the_patience():
    assert call(failing(20, TryAgain("broke off")), on_failure=lambda: True) == "done"


def test_the_last_answer_is_what_is_raised():
    with pytest.raises(ServiceUnavailable):
        call(failing(9, TryAgain("503", final=ServiceUnavailable("busy"))))


def test_does_not_wait_longer_than_is_bearable():
    with pytest.raises(NetworkError):
        call(failing(1, TryAgain("503", retry_after_s=3600)), policy=RetryPolicy())


def test_threads_that_wait_for_the_same_reason_speak_once():
    notes: list[str] = []
    retrier = Retrier(RetryPolicy(tries=2, base_s=1, cap_s=1), note=notes.append)
    attempts = [failing(1, httpx.ConnectError("refused")) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        done = pool.map(lambda it: retrier.call(it, what="It", on_failure=lambda: False), attempts)
    assert list(done) == ["done"] * 8
    (note,) = notes
    assert note.startswith("It: refused; trying again in ")


def test_stops_when_told():
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(Interrupted):
        call(failing(1, TryAgain("503")), policy=RetryPolicy(base_s=60), stopped=stopped)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7),
        ("0", 0),
        ("-3", 0),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 90),
        ("Thu, 01 Jan 1970 00:00:01 GMT", 0),
        ("soon", None),
        ("", None),
        ("nan", None),
        ("Thu, 99 Foo 1970", None),
    ],
)
def test_reads_retry_after(text, seconds):
    headers = {"retry-after": text} if text else {}
    assert retry_after_s(httpx.Response(503, headers=headers), now=10) == seconds


def test_a_store_that_throttles_gets_more_patience():
    policy = RetryPolicy(tries=3, throttled_tries=10, base_s=0.001, cap_s=0.002)
    assert call(failing(9, TryAgain("503", throttled=True)), policy=policy) == "done"
    with pytest.raises(NetworkError, match="failed 10 times"):
        call(failing(10, TryAgain("503", throttled=True)), policy=policy)
    with pytest.raises(NetworkError, match="failed 3 times"):
        call(failing(3, TryAgain("500")), policy=policy)


def test_waiting_for_a_busy_store_uses_up_no_try_of_another_kind():
    policy = RetryPolicy(tries=3, throttled_tries=10, base_s=0.001, cap_s=0.002)
    busy, broken = TryAgain("503", throttled=True), TryAgain("the answer broke off")
    errors = iter([busy] * 5 + [broken] * 2 + [busy] * 4)

    def attempt() -> str:
        for error in errors:
            raise error
        return "done"

    assert call(attempt, policy=policy) == "done"
