"""Wait until the gateways have followed a change."""

import time
from dataclasses import dataclass

from ai_model.routing.api import TrafficApi
from ai_model_format import wire

LOOK_EVERY_S = 0.05
ALIVE_S = 60.0
"""A gateway that asked for nothing so long is not waited for."""


@dataclass(frozen=True, slots=True)
class Effect:
    """How far a change has come.

    Attributes:
        applied: gateways that follow it.
        gateways: all that are alive.
        elapsed_s: how long it was waited.
    """

    applied: int
    gateways: int
    elapsed_s: float

    def to_json(self) -> dict[str, object]:
        """Return it as plain JSON."""
        return {
            "applied": self.applied, "gateways": self.gateways, "elapsed_s": self.elapsed_s
        }  # fmt: skip


def wait_for_effect(traffic: TrafficApi, route: wire.RouteInfo, *, timeout_s: float) -> Effect:
    """Return when every live gateway has applied ``route``, or the time is over."""
    started = time.monotonic()
    while True:
        listed = traffic.gateways()
        newest = max((gateway.seen_at for gateway in listed.gateways), default=None)
        alive = [
            gateway
            for gateway in listed.gateways
            if newest is not None and (newest - gateway.seen_at).total_seconds() < ALIVE_S
        ]
        applied = [g for g in alive if g.routes_revision >= route.routing_revision]
        elapsed_s = time.monotonic() - started
        if len(applied) == len(alive) or elapsed_s >= timeout_s:
            return Effect(len(applied), len(alive), round(elapsed_s, 3))
        time.sleep(LOOK_EVERY_S)
