"""Rollouts on the real thing: figures from Envoy, verdicts of the registry."""

import psycopg

from ai_model_format.traffic import WHOLE
from ai_model_format.wire import RolloutInfo
from tests.registry_api.routing.conftest import Served
from tests.services.envoy import converge
from tests.services.load import Load

LONG_S = 120.0


def start(served: Served, version: str, *options: str, steps: str = "20%,60%,100%") -> None:
    served.stack.run(
        "rollout", "start", "--model-id", served.model_id, "--version", version,
        "--steps", steps, "--min-requests", "20", *options,
    )  # fmt: skip


def status(served: Served) -> RolloutInfo:
    return served.stack.traffic().rollout(served.model_id)


def shares(served: Served) -> dict[str, int]:
    route = served.stack.traffic().route(served.model_id)
    return {share.version: share.basis_points for share in route.shares}


def test_a_good_version_ends_with_all_traffic(served: Served) -> None:
    with Load(served.stack.gateway_port, served.path) as load:
        start(served, "v2.4", "--interval", "1s")
        converge(lambda: status(served).state != "running", timeout_s=LONG_S)
    ended = status(served)
    assert (ended.state, ended.step) == ("succeeded", 2), ended
    assert shares(served) == {"v2.4": WHOLE}
    assert load.lost == {}


def test_a_version_that_fails_half_its_requests_is_rolled_back(served: Served) -> None:
    bad = served.stack.serve(served.model_id, "v2.5", fail_every=2)
    served.canary.append(bad)
    with Load(served.stack.gateway_port, served.path):
        start(served, "v2.5", "--interval", "10m")
        converge(lambda: status(served).state != "running", timeout_s=LONG_S)
        ended = status(served)
        served.followed(served.stack.traffic().route(served.model_id))
        reached = bad.answered()
        load_again = Load(served.stack.gateway_port, served.path)
        with load_again:
            converge(lambda: load_again.total > 300)
    assert ended.state == "rolled_back"
    assert ended.why is not None
    assert "requests failed" in ended.why
    assert shares(served) == {"v2.3": WHOLE}
    assert bad.answered() == reached, "nothing more reaches it"
    assert load_again.lost == {}


def test_a_slow_version_is_rolled_back(served: Served) -> None:
    served.canary.append(served.stack.serve(served.model_id, "v2.5", delay_ms=300))
    with Load(served.stack.gateway_port, served.path, connections=16):
        start(served, "v2.5", "--interval", "10m", "--max-p99-ms", "150")
        converge(lambda: status(served).state != "running", timeout_s=LONG_S)
    assert status(served).state == "rolled_back"
    assert "99th percentile" in str(status(served).why)


def test_no_traffic_is_neither_good_nor_bad(served: Served) -> None:
    start(served, "v2.4", "--interval", "0.1s")
    converge(lambda: status(served).waiting)
    waiting = status(served)
    assert (waiting.state, waiting.step) == ("running", 0)
    assert "0 of at least 20 requests" in str(waiting.waiting)
    with Load(served.stack.gateway_port, served.path):
        converge(lambda: status(served).step > 0, timeout_s=LONG_S)


def test_pause_resume_and_abort_by_hand(served: Served) -> None:
    start(served, "v2.4", "--interval", "0.1s", "--reason", "a try")
    again = served.stack.run(*_command(served, "start"), "--version", "v2.4", code=5)
    assert "promote or abort it" in again.stderr
    said = served.stack.run(*_command(served, "pause"), "--reason", "lunch").stdout
    assert "paused" in said
    assert "why: lunch" in said
    with Load(served.stack.gateway_port, served.path) as load:
        converge(lambda: load.answers[200, "v2.4"] > 100)
    assert (status(served).state, status(served).step) == ("paused", 0), "paused is paused"
    assert "running" in served.stack.run(*_command(served, "resume")).stdout
    assert "aborted" in served.stack.run(*_command(served, "abort"), "--reason", "enough").stdout
    assert shares(served) == {"v2.3": WHOLE}
    ended = served.stack.run(*_command(served, "resume"), code=5)
    assert "start another one" in ended.stderr
    events = _events(served)
    assert [*events[:3], events[-1]] == ["started", "paused", "resumed", "aborted"]
    assert set(events[3:-1]) <= {"advanced"}, "a step may fit in between resume and abort"


def test_promote_by_hand_gives_it_everything_at_once(served: Served) -> None:
    start(served, "v2.4", "--interval", "10m")
    said = served.stack.run(*_command(served, "promote")).stdout
    assert "succeeded" in said
    assert shares(served) == {"v2.4": WHOLE}


def test_a_rollout_goes_on_when_processes_are_killed(served: Served) -> None:
    stack = served.stack
    with Load(stack.gateway_port, served.path) as load:
        start(served, "v2.4", "--interval", "2s")
        for port in stack.api_ports:
            stack.kill_api(port)  # all at once: nobody runs it
        stack.start_api(stack.api_ports[1])
        other = stack.traffic(port=stack.api_ports[1])
        converge(lambda: other.rollout(served.model_id).step > 0, timeout_s=LONG_S)
        stack.start_api(stack.api_ports[0])
        converge(lambda: status(served).state != "running", timeout_s=LONG_S)
    assert status(served).state == "succeeded", status(served)
    history = stack.traffic().route_history(served.model_id)
    moves = [r for r in reversed(history) if r.kind == "rollout"]
    given = [{s.version: s.basis_points for s in r.shares}["v2.4"] for r in moves]
    assert given == [2000, 6000, WHOLE], "each step once, though two processes run it"
    assert load.lost == {}


def test_whoever_moves_the_route_takes_over(served: Served) -> None:
    start(served, "v2.4", "--interval", "10m")
    served.move(700)
    converge(lambda: status(served).state == "aborted")
    assert "changed the route" in str(status(served).why)
    assert shares(served) == {"v2.3": 9300, "v2.4": 700}


def _command(served: Served, action: str) -> tuple[str, ...]:
    return ("rollout", action, "--model-id", served.model_id)


def _events(served: Served) -> list[str]:
    with psycopg.connect(served.stack.database) as connection:
        rows = connection.execute(
            "SELECT action FROM event WHERE model_name = %s AND action LIKE %s ORDER BY id",
            [served.model_id, "rollout.%"],
        ).fetchall()
    return [str(row[0]).removeprefix("rollout.") for row in rows]
