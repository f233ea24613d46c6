"""Wrong answers are never believed; a network that is away is waited for."""

import gzip
import socket
import time
from collections.abc import Callable

import httpx
import numpy as np
import pytest
from safetensors.numpy import save_file

from ai_model import Registry
from ai_model.errors import AccessDenied, CorruptBytes, NetworkError
from ai_model.get import fetch
from ai_model.retry import RetryPolicy
from tests.ai_model.faulty_proxy import Answer, faulty_proxy

QUICK = RetryPolicy(tries=3, base_s=0.01, cap_s=0.05, patience_s=5)


@pytest.fixture
def weights(tmp_path, model_id):
    random = np.random.default_rng(list(model_id.encode()))
    path = tmp_path / "model.safetensors"
    save_file({f"l{n}": random.random((300, 1000), dtype=np.float32) for n in range(9)}, path)
    return path


@pytest.fixture
def proxy(registry_server, new_client, weights, model_id):
    """A proxy in front of a registry that holds the weights."""
    new_client(registry_server).push(weights, model_id, "v1")
    with faulty_proxy(registry_server.endpoint) as proxy:
        yield proxy


@pytest.fixture
def client(proxy, registry_server, new_client) -> Registry:
    client = new_client(registry_server, endpoint=proxy.endpoint)
    client.api.session.policy = QUICK
    return client


def ignore_range(answer: Answer) -> None:
    answer.status = 200
    answer.headers.pop("content-range", None)


def other_range(answer: Answer) -> None:
    answer.headers["content-range"] = "bytes 0-6/7"


def other_size(answer: Answer) -> None:
    answer.headers["content-range"] = (
        answer.headers["content-range"].partition("/")[0] + "/99999999"
    )


def no_content_range(answer: Answer) -> None:
    del answer.headers["content-range"]


def compressed(answer: Answer) -> None:
    answer.body = gzip.compress(answer.body)
    answer.headers["content-encoding"] = "gzip"
    answer.headers["content-length"] = str(len(answer.body))


def short_body(answer: Answer) -> None:
    answer.send = len(answer.body) // 2


def shorter_length(answer: Answer) -> None:
    answer.body = answer.body[:-1]
    answer.headers["content-length"] = str(len(answer.body))


def busy(answer: Answer) -> None:
    answer.status = 503
    answer.headers = {"retry-after": "1"}
    answer.body = b""


def busy_after(good: int, calls: list[int]) -> Callable[[Answer], None]:
    """Let so many answers through, and no other; ``calls`` has the number of each."""

    def fault(answer: Answer) -> None:
        calls.append(len(calls) + 1)
        if len(calls) > good:
            busy(answer)
            answer.headers = {}

    return fault


def expired(answer: Answer) -> None:
    answer.status = 403
    answer.headers = {}
    answer.body = b"expired"


def flipped(answer: Answer) -> None:
    body = bytearray(answer.body)
    body[len(body) // 2] ^= 1
    answer.body = bytes(body)


WRONG = [
    ignore_range,
    other_range,
    other_size,
    no_content_range,
    compressed,
    short_body,
    shorter_length,
    busy,
    expired,
    flipped,
]


@pytest.mark.parametrize("fault", WRONG)
def test_one_wrong_answer_is_asked_again(fault, proxy, client, weights, model_id, tmp_path):
    proxy.break_answers(fault, times=1)
    started = time.monotonic()
    client.get(model_id, "v1", output=tmp_path / "out")
    assert (tmp_path / "out" / weights.name).read_bytes() == weights.read_bytes()
    assert proxy.times == 0
    if fault is busy:
        assert time.monotonic() - started >= 1  # as Retry-After asks


@pytest.mark.parametrize("fault", [f for f in WRONG if f not in (flipped, expired, busy)])
def test_wrong_answers_are_never_accepted(fault, proxy, client, model_id, tmp_path):
    proxy.break_answers(fault)
    with pytest.raises(NetworkError) as caught:
        client.get(model_id, "v1", output=tmp_path / "out")
    assert caught.value.exit_code == 7
    assert not (tmp_path / "out" / "model.safetensors").exists()


def test_damage_on_every_way_is_an_integrity_error(proxy, client, model_id, tmp_path):
    proxy.break_answers(flipped)
    with pytest.raises(CorruptBytes):
        client.get(model_id, "v1", output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_refusal_of_fresh_urls_is_said(proxy, client, model_id, tmp_path):
    proxy.break_answers(expired)
    with pytest.raises(AccessDenied) as caught:
        client.get(model_id, "v1", output=tmp_path / "out")
    assert caught.value.exit_code == 4


def test_a_busy_service_is_exit_7(proxy, client, model_id, tmp_path):
    proxy.break_answers(lambda answer: setattr(answer, "status", 503), only="/manifest")
    with pytest.raises(NetworkError):
        client.get(model_id, "v1", output=tmp_path / "out")


def test_a_stalled_connection_is_noticed(proxy, client, weights, model_id, tmp_path, monkeypatch):
    monkeypatch.setattr(fetch, "_TIMEOUT", httpx.Timeout(1.0))

    def stall(answer: Answer) -> None:
        answer.send, answer.stall_s = len(answer.body) // 2, 10

    proxy.break_answers(stall, times=2)
    client.get(model_id, "v1", output=tmp_path / "out")
    assert (tmp_path / "out" / weights.name).read_bytes() == weights.read_bytes()


def test_what_was_fetched_before_the_network_went_is_kept(
    proxy, client, weights, model_id, tmp_path
):
    proxy.break_answers(busy_after(2, []))
    client.api.connections = 1
    with pytest.raises(NetworkError, match="run it again"):
        client.get(model_id, "v1", output=tmp_path / "out")
    proxy.fault = None
    got = client.get(model_id, "v1", output=tmp_path / "out")
    assert got.bytes_reused > 0
    assert got.bytes_fetched < got.bytes_selected
    assert got.bytes_fetched + got.bytes_reused >= got.bytes_selected - 4096
    assert (tmp_path / "out" / weights.name).read_bytes() == weights.read_bytes()
    assert not list((tmp_path / "out" / ".ai-model").glob("partial-*"))


def test_pushes_get_through_trouble(proxy, client, weights, model_id, tmp_path):
    changed = bytearray(weights.read_bytes())
    for place in range(5000, len(changed), 500_000):
        changed[place] ^= 1
    weights.write_bytes(changed)
    proxy.break_answers(busy, times=2, only="/parts/")
    pushed = client.push(weights, model_id, "v2")
    assert pushed.created
    client.get(model_id, "v2", output=tmp_path / "out")
    assert (tmp_path / "out" / weights.name).read_bytes() == bytes(changed)


def test_the_token_is_not_sent_with_signed_urls(proxy, client, model_id, tmp_path):
    client.get(model_id, "v1", output=tmp_path / "out")
    objects = [headers for _, path, headers in proxy.seen if path.startswith("/v1/objects/")]
    assert objects
    assert all("authorization" not in headers for headers in objects)
    assert all(headers["accept-encoding"] == "identity" for headers in objects)


def test_nobody_at_home(tmp_path, new_client, registry_server):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    client = new_client(registry_server, endpoint=f"http://127.0.0.1:{port}")
    client.api.session.policy = QUICK
    notes: list[str] = []
    client.api.session.on_note = notes.append
    with pytest.raises(NetworkError) as caught:
        client.get("m", "v1", output=tmp_path / "out")
    assert caught.value.exit_code == 7
    asked = f"GET http://127.0.0.1:{port}/v1/models/m/versions/v1"
    assert caught.value.sentence == (
        f"{asked} failed 3 times: Connection refused (127.0.0.1:{port})."
    )
    assert notes
    assert notes[0].startswith(f"{asked}: Connection refused (127.0.0.1:{port}); trying again in")


def test_a_name_that_nobody_knows(tmp_path, new_client, registry_server):
    client = new_client(registry_server, endpoint="http://nobody.invalid")
    client.api.session.policy = QUICK
    with pytest.raises(NetworkError, match=r"not known|resolution") as caught:
        client.whoami()
    assert caught.value.sentence.endswith("(nobody.invalid:http).")
    assert "HTTPConnection" not in caught.value.sentence


def test_a_part_of_which_nothing_came_leaves_nothing(proxy, client, model_id, tmp_path):
    calls: list[int] = []
    proxy.break_answers(busy_after(1, calls))  # the header's comes, no other
    with pytest.raises(NetworkError) as caught:
        client.get(model_id, "v1", layers="l[1-3]", output=tmp_path / "out")
    assert len(calls) > 1
    assert "run it again to go on" not in str(caught.value)
    assert not (tmp_path / "out").exists()
