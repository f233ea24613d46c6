"""The whole way: a route in Postgres, two API processes, a real Envoy, real servers."""

import httpx
import pytest

from ai_model.routing import changes
from ai_model_format import wire
from tests.services.envoy import TrafficStack, converge
from tests.services.load import Load, burst

MODEL = "vision/res.net50"


@pytest.fixture
def stack(traffic_stack: TrafficStack) -> TrafficStack:
    """Two stable servers and one canary; all traffic on the stable version."""
    traffic_stack.add_versions(MODEL, "v2.3", "v2.4", "v2.5")
    for versions in (["v2.3"], ["v2.3"], ["v2.4"]):
        traffic_stack.serve(MODEL, *versions)
    changes.change_route(traffic_stack.traffic(), MODEL, {"v2.3": 10_000})
    converge(lambda: get(traffic_stack).status_code == 200)
    return traffic_stack


def get(stack: TrafficStack, path: str = f"/m/{MODEL}/x", **headers: str) -> httpx.Response:
    return httpx.get(f"{stack.gateway_url}{path}", headers=headers, timeout=10)


def test_five_percent_takes_effect_and_nothing_is_lost(stack: TrafficStack) -> None:
    with Load(stack.gateway_port, f"/m/{MODEL}/predict") as load:
        converge(lambda: load.total > 200)
        done = stack.run("route", "--model-id", MODEL, "--traffic", "5%", "--version", "v2.4")
        converge(lambda: load.answers[200, "v2.4"] > 10)
    assert "v2.3 95%, v2.4 5%" in done.stdout
    assert "holds at 1 of 1 gateway" in done.stdout
    assert load.lost == {}
