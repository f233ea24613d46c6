"""Answers that got lost behind work that was done: the next try finds it done."""

import os

import pytest

from ai_model.errors import NotFound
from ai_model.retry import RetryPolicy
from tests.ai_model.faulty_proxy import Answer, faulty_proxy
from tests.services.registry import running_on_s3

QUICK = RetryPolicy(tries=3, base_s=0.01, cap_s=0.05, patience_s=5)


def lost(answer: Answer) -> None:
    """As from a gateway that did not hear the end of it."""
    answer.status, answer.body, answer.headers = 504, b"", {}


def test_a_part_that_arrived_is_not_refused(database, s3_settings, new_client, model_id, tmp_path):
    path = tmp_path / "file.bin"
    path.write_bytes(os.urandom(300_000))
    s3 = s3_settings()
    with faulty_proxy(s3.endpoint_url) as proxy:
        public = {"AI_MODEL_S3_PUBLIC_ENDPOINT_URL": proxy.endpoint}
        with running_on_s3(database, s3, **public) as server:
            client = new_client(server)
            client.api.session.policy = QUICK
            proxy.break_answers(lost, times=1, only="/objects/")
            assert client.push(path, model_id, "v1").created
            puts = [seen for seen in proxy.seen if seen[0] == "PUT"]
            assert (len(puts), proxy.times) == (2, 0)
            client.get(model_id, "v1", output=tmp_path / "out")
    assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()


@pytest.fixture
def proxy(registry_server):
    """A proxy in front of a registry."""
    with faulty_proxy(registry_server.endpoint) as proxy:
        yield proxy


def test_aliases_that_were_changed_are_not_refused(
    proxy, registry_server, new_client, model_id, tmp_path
):
    client = new_client(registry_server, endpoint=proxy.endpoint)
    client.api.session.policy = QUICK
    for version in ("v1", "v2"):
        (tmp_path / "file").write_text(version)
        client.push(tmp_path / "file", model_id, version)

    proxy.break_answers(lost, times=1, only="/aliases/")
    assert client.set_alias(model_id, "live", "v1", create_only=True).version == "v1"
    assert proxy.times == 0
    asked = iter(["where it points", "to move it"])

    def lose_the_move(answer: Answer) -> None:
        if next(asked) == "to move it":
            lost(answer)

    proxy.break_answers(lose_the_move, times=2, only="/aliases/")
    assert client.set_alias(model_id, "live", "v2", expect_version="v1").version == "v2"
    assert proxy.times == 0
    proxy.break_answers(lost, times=1, only="/aliases/")
    client.remove_alias(model_id, "live")
    assert [alias.alias for alias in client.aliases(model_id)] == []
    with pytest.raises(NotFound):
        client.remove_alias(model_id, "live")
