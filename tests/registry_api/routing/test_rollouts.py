"""Rollouts on the real thing: figures from Envoy, verdicts of the registry."""

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
    again = ("rollout", "start", "--model-id", served.model_id, "--version", "v2.4")
    served.stack.run(*again, code=5)
    served.stack.run("rollout", "pause", "--model-id", served.model_id)
    assert status(served).state == "paused"
    served.stack.run("rollout", "resume", "--model-id", served.model_id)
    served.stack.run("rollout", "abort", "--model-id", served.model_id)
    assert status(served).state == "aborted"
    assert shares(served) == {"v2.3": WHOLE}


def test_whoever_moves_the_route_takes_over(served: Served) -> None:
    start(served, "v2.4", "--interval", "10m")
    served.move(700)
    converge(lambda: status(served).state == "aborted")
    assert "changed the route" in str(status(served).why)
    assert shares(served) == {"v2.3": 9300, "v2.4": 700}
