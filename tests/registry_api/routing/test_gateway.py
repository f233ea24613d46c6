"""The whole way: a route in Postgres, two API processes, a real Envoy, real servers."""

import math
import random
import time
from collections import Counter
from pathlib import Path

import psycopg
import pytest

from tests.ai_model.faulty_proxy import Answer, faulty_proxy
from tests.registry_api.routing.conftest import Served
from tests.services.envoy import converge, digest_for
from tests.services.inference import InferenceServer
from tests.services.load import Load, burst

SHADOWED = 400
Z_999 = 3.29
"""Standard deviations of a 99.9% interval."""


def test_five_percent_takes_effect_and_nothing_is_lost(served: Served) -> None:
    with Load(served.stack.gateway_port, served.path) as load:
        converge(lambda: load.total > 200)
        done = served.stack.run(
            "route", "--model-id", served.model_id, "--traffic", "5%", "--version", "v2.4"
        )
        converge(lambda: load.answers[200, "v2.4"] > 10)
    assert "v2.3 95%, v2.4 5%" in done.stdout
    assert "holds at 1 of 1 gateway" in done.stdout
    assert load.lost == {}


def test_gateways_leave_nothing_in_shared_memory(served: Served) -> None:
    """Envoy keeps a file there for hot restarts, which it does not take away."""
    assert served.stack.traffic().gateways()
    began = Path("/proc/self").stat().st_ctime
    shared = Path("/dev/shm").glob("envoy_shared_memory_*")
    assert [path.name for path in shared if path.stat().st_mtime > began] == []


def test_a_dry_run_changes_nothing(served: Served) -> None:
    before = served.stack.traffic().route(served.model_id)
    command = ("route", "--model-id", served.model_id, "--traffic", "5%", "--version", "v2.4")
    done = served.stack.run(*command, "--dry-run")
    assert "Nothing was changed." in done.stdout
    assert served.stack.traffic().route(served.model_id) == before
    too_much = (*command[:4], "60%", *command[5:], "--dry-run")
    assert "at most 50%" in served.stack.run(*too_much, code=5).stderr
    history = served.stack.traffic().route_history(served.model_id, limit=1)
    assert [route.revision for route in history] == [before.revision]


def test_five_percent_is_five_percent(served: Served) -> None:
    served.move(500)
    requests = 20_000
    answers = Counter(burst(served.stack.gateway_port, served.path, [{}] * requests))
    assert set(answers) == {(200, "v2.3"), (200, "v2.4")}
    spread = math.sqrt(requests * 0.05 * 0.95)
    assert abs(answers[200, "v2.4"] - requests * 0.05) < Z_999 * spread


def test_cohorts_are_sticky_and_only_grow(served: Served) -> None:
    users = [{"x-user-id": f"user-{number}"} for number in range(1000)]

    def cohort() -> set[int]:
        answers = burst(served.stack.gateway_port, served.path, users)
        assert {status for status, _ in answers} == {200}
        return {number for number, (_, version) in enumerate(answers) if version == "v2.4"}

    grown: set[int] = set()
    for share in (500, 2000, 5000, 10_000):
        served.move(share)
        now = cohort()
        assert now == cohort()
        assert grown <= now
        grown = now
    assert len(grown) == len(users)


def test_fifty_changes_and_drains_lose_nothing(served: Served) -> None:
    rng = random.Random(7)
    stack = served.stack
    with Load(stack.gateway_port, served.path) as load:
        for step in range(50):
            if step % 5 == 4:
                server = stack.serve(served.model_id, "v2.3")
                old = served.stable.pop(0)
                served.stable.append(server)
                stack.drain(served.model_id, old)
            else:
                served.split({"v2.4": (share := rng.choice([0, 1, 500, 5000, 9000, 10_000])),
                              "v2.3": 10_000 - share})  # fmt: skip
    assert load.lost == {}
    assert load.total > 500
    assert {version for _, version in load.answers} == {"v2.3", "v2.4"}


def test_a_weight_of_zero_gets_nothing(served: Served) -> None:
    served.move(5000)
    served.move(0)
    answers = burst(served.stack.gateway_port, served.path, [{}] * 500)
    assert set(answers) == {(200, "v2.3")}


def test_naming_a_model_and_a_version(served: Served) -> None:
    by_path = served.get(f"{served.path}/v1/predict?k=1").json()
    assert (by_path["path"], by_path["model"]) == ("/v1/predict?k=1", served.model_id)
    by_header = served.get("/v1/predict", x_ai_model=served.model_id).json()
    assert by_header["path"] == "/v1/predict"
    for answer in (
        served.get(f"{served.path}@v2.4/v1/predict"),
        served.get(f"{served.path}/v1/predict", x_ai_model_version="v2.4"),
        served.get("/v1/predict", x_ai_model=served.model_id, x_ai_model_version="v2.4"),
    ):
        assert answer.json()["version"] == "v2.4"
        assert answer.json()["path"] == "/v1/predict"
        assert answer.headers["x-ai-model-version"] == "v2.4"


def test_a_pin_that_nobody_serves_is_a_404_that_says_so(served: Served) -> None:
    for answer in (
        served.get(f"{served.path}@v2.5/predict"),
        served.get(f"{served.path}@v2/predict"),
        served.get(served.path, x_ai_model_version="v9"),
        served.get("/", x_ai_model=served.model_id, x_ai_model_version="v2.5"),
    ):
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["code"] == "version_not_served"
        assert "loaded now: v2.3, v2.4" in answer.json()["detail"]
    assert served.get("/m/nobody").json()["code"] == "model_not_found"


def test_a_killed_server_costs_at_most_what_was_in_flight(served: Served) -> None:
    with Load(served.stack.gateway_port, served.path, connections=8) as load:
        converge(lambda: load.total > 200)
        served.stack.crash(served.model_id, served.stable[0])
        before = load.total
        converge(lambda: load.total > before + 1000)
    assert sum(load.lost.values()) <= load.connections
    nodes = {e.address: e.state for e in served.stack.traffic().endpoints(served.model_id)}
    converge(lambda: _state(served, served.stable[0].address) == "gone")
    assert nodes[served.stable[1].address] == "live"


@pytest.mark.parametrize("share", [3000, 7500])
def test_an_empty_canary_falls_back_to_the_other_version(served: Served, share: int) -> None:
    served.move(share)
    with Load(served.stack.gateway_port, served.path, connections=8) as load:
        converge(lambda: load.answers[200, "v2.4"] > 50)
        served.stack.crash(served.model_id, served.canary[0])
        converge(lambda: _state(served, served.canary[0].address) == "gone")
        served.followed(served.stack.traffic().route(served.model_id))
        converge(lambda: served.get(f"{served.path}@v2.4").status_code == 404)
        lost = load.lost
        before = load.total
        converge(lambda: load.total > before + 300)
    assert load.lost == lost, "nothing is lost once its lease has ended"
    assert share > 5000 or sum(lost.values()) <= load.connections
    assert served.get(f"{served.path}@v2.4").status_code == 404


def test_streams_survive_a_change_and_a_drain(served: Served) -> None:
    import threading

    bodies: list[str] = []
    threads = [
        threading.Thread(target=lambda: bodies.append(served.get(f"{served.path}/slow?s=30").text))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    served.move(10_000)
    for server in served.stable:
        served.stack.drain(served.model_id, server)
    for thread in threads:
        thread.join()
    assert bodies == ["chunk" * 30] * 6
    assert served.get().json()["version"] == "v2.4"


def test_a_shadow_never_touches_the_answers(served: Served) -> None:
    """Not where it fails, nor where it is slow, nor where it dies; and its copies do arrive."""
    failing = served.stack.serve(served.model_id, "v2.5", fail_every=1)
    slow = served.stack.serve(served.model_id, "v2.6", delay_ms=60_000)
    served.canary += [failing, slow]
    for shadow, version in ((failing, "v2.5"), (slow, "v2.6"), (served.canary[0], "v2.4")):
        served.stack.run(
            "route", "--model-id", served.model_id, "--shadow", "50%", "--version", version
        )
        copied = shadow.answered()
        answers = burst(served.stack.gateway_port, served.path, [{}] * SHADOWED)
        assert answers == [(200, "v2.3")] * SHADOWED
        converge(lambda: _settled(shadow))  # noqa: B023
        copied = shadow.answered() - copied
        spread = math.sqrt(SHADOWED * 0.5 * 0.5)
        assert abs(copied - SHADOWED * 0.5) < Z_999 * spread
    with Load(served.stack.gateway_port, served.path) as load:
        converge(lambda: load.total > 100)
        served.canary[0].kill()  # its lease goes on, so that copies are still sent there
        before = load.total
        converge(lambda: load.total > before + 200)
    assert load.lost == {}
    assert set(load.answers) == {(200, "v2.3")}


def test_a_shadow_needs_a_server_and_ends(served: Served) -> None:
    shadow = ("route", "--model-id", served.model_id, "--version", "v2.5", "--shadow")
    assert "No live server" in served.stack.run(*shadow, "50%", code=5).stderr
    served.stack.run(*shadow[:4], "v2.4", "--shadow", "100%")
    served.stack.run(*shadow[:4], "v2.4", "--shadow", "0")
    answers = burst(served.stack.gateway_port, served.path, [{}] * 50)
    assert answers == [(200, "v2.3")] * 50
    assert served.canary[0].answered() == 0


def test_refusals_say_why_and_the_way_out(served: Served) -> None:
    stack, route = served.stack, ("route", "--model-id", served.model_id)
    refused = stack.run(*route, "--traffic", "5%", "--version", "v2.5", code=5).stderr
    assert "No live server" in refused
    assert "ai-model watch" in refused
    refused = stack.run(*route, "--traffic", "60%", "--version", "v2.4", code=5).stderr
    assert "at most 50%, or force it" in refused
    for wrong in ("0.05", "-1", "101", "5.005", "five"):
        stack.run(*route, f"--traffic={wrong}", "--version", "v2.4", code=2)
    stack.run(*route, "--traffic", "5%", "--version", "v9", code=3)
    stack.begin_push(served.model_id, "v9")
    refused = stack.run(*route, "--traffic", "5%", "--version", "v9", code=5).stderr
    assert "'v9' is still being pushed" in refused
    assert "wait until its push has ended" in refused
    with psycopg.connect(stack.database) as connection:
        done = connection.execute(
            "UPDATE version SET yanked_at = now(), yank_reason = 'bad data' FROM model"
            " WHERE model.id = model_id AND model.name = %s AND version.name = 'v2.4'",
            [served.model_id],
        )
        assert done.rowcount == 1
    refused = stack.run(*route, "--traffic", "5%", "--version", "v2.4", code=5).stderr
    assert "yanked (bad data)" in refused
    assert "take the yank back, or force it" in refused
    assert stack.traffic().route(served.model_id).revision == 1, "nothing was changed"


def test_a_version_goes_by_any_of_its_names(served: Served) -> None:
    stack, route = served.stack, ("route", "--model-id", served.model_id)
    with stack.registry() as registry:
        registry.set_alias(served.model_id, "candidate", "v2.4")
    digest = digest_for(served.model_id, "v2.4")
    done = stack.run(*route, "--traffic", "20%", "--version", digest)
    assert "after   v2.3 80%, v2.4 20%\n" in done.stdout
    done = stack.run(*route, "--traffic", "0", "--version", "candidate")
    assert "after   v2.3 100%\n" in done.stdout
    done = stack.run(*route, "--traffic", "10%", "--version", "candidate")
    assert "after   v2.3 90%, v2.4 10%\n" in done.stdout
    twice = (*route, "--traffic", "1%", "--traffic", "2%", "--version", "v2.4", "--version")
    assert "v2.4 is named twice" in stack.run(*twice, "candidate", code=2).stderr
    stack.run(*route, "--traffic", "0", "--version", "v2.44", code=3)
    assert stack.traffic().route(served.model_id).revision == 4, "the mistakes changed nothing"


def test_a_shadow_may_be_forced(served: Served) -> None:
    shadow = ("route", "--model-id", served.model_id, "--version", "v2.5", "--shadow", "50%")
    served.stack.run(*shadow, code=5)
    assert "a copy of 50% goes to v2.5" in served.stack.run(*shadow, "--force").stdout


def test_a_rollback_whose_answer_is_lost_is_done_once(served: Served) -> None:
    stack = served.stack
    before = served.move(2000)
    rollback = ("route", "rollback", "--model-id", served.model_id)
    with faulty_proxy(stack.endpoints[0]) as proxy:
        proxy.break_answers(_lost, times=1, only="/route/rollback")
        done = stack.run(*rollback, "--endpoint", proxy.endpoint)
        assert (proxy.times, f"Revision {before.revision + 1} holds" in done.stdout) == (0, True)
        proxy.break_answers(_lost, times=100, only="/v1/gateways")
        done = stack.run(*rollback, "--endpoint", proxy.endpoint)
    assert f"Revision {before.revision + 2} is set" in done.stderr
    assert "after   v2.3 80%, v2.4 20%\n" in done.stdout


def _lost(answer: Answer) -> None:
    """As from a proxy that did not hear the end of it."""
    answer.status, answer.body, answer.headers = 504, b"", {}


def _settled(server: InferenceServer) -> bool:
    """Say whether no more copies come in."""
    before = server.answered()
    time.sleep(0.3)
    return server.answered() == before


def _state(served: Served, address: str) -> str:
    endpoints = served.stack.traffic().endpoints(served.model_id)
    return next(endpoint.state for endpoint in endpoints if endpoint.address == address)
