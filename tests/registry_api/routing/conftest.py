"""A model of its own for each test, on one running stack."""

import itertools
from dataclasses import dataclass, field

import httpx
import pytest
from sqlalchemy import Engine

from ai_model.routing import changes
from ai_model_format.wire import RouteInfo
from tests.registry_api.routing.split import MODEL, add_model, beat
from tests.services.envoy import TrafficStack, converge
from tests.services.inference import InferenceServer

_NUMBERS = itertools.count()


@dataclass
class Served:
    """A model with servers, and the ways to reach it."""

    stack: TrafficStack
    model_id: str
    stable: list[InferenceServer] = field(default_factory=list)
    canary: list[InferenceServer] = field(default_factory=list)

    @property
    def path(self) -> str:
        return f"/m/{self.model_id}"

    def get(self, path: str | None = None, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        url = f"{self.stack.gateway_url}{self.path if path is None else path}"
        return httpx.get(url, headers=named, timeout=10)

    def move(self, share: int, version: str = "v2.4", *, force: bool = True) -> RouteInfo:
        """Move one version and wait until the gateway has followed."""
        return self.split({version: share}, force=force)

    def split(self, shares: dict[str, int], *, force: bool = True) -> RouteInfo:
        """Move versions and wait until the gateway has followed."""
        traffic = self.stack.traffic()
        change = changes.change_route(traffic, self.model_id, shares, force=force)
        self.followed(change.after)
        return change.after

    def followed(self, route: RouteInfo) -> None:
        traffic = self.stack.traffic()
        converge(
            lambda: all(
                gateway.routes_revision >= route.routing_revision
                for gateway in traffic.gateways().gateways
            )
        )


@pytest.fixture
def served(traffic_stack: TrafficStack):
    """Two servers of v2.3 with all traffic and one of v2.4."""
    model = Served(traffic_stack, f"vision/res.net{next(_NUMBERS)}")
    traffic_stack.add_versions(model.model_id, "v2.3", "v2.4", "v2.5", "v2.6")
    model.stable = [traffic_stack.serve(model.model_id, "v2.3") for _ in range(2)]
    model.canary = [traffic_stack.serve(model.model_id, "v2.4")]
    model.move(10_000, "v2.3")
    yield model
    for server in [*model.stable, *model.canary]:
        if server.address in traffic_stack.beating:
            traffic_stack.stop_beating(server)
        server.stop()


@pytest.fixture
def registry(engine: Engine) -> Engine:
    """A model with four versions; v1 and v2 are loaded by one server each."""
    add_model(engine, MODEL)
    beat(engine, "10.0.0.1:80", "v1")
    beat(engine, "10.0.0.2:80", "v2")
    return engine
