"""Traffic: who serves what, which share each version gets, how a rollout goes.

Shares are basis points, hundredths of a percent; a route's sum to 10,000.
"""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from ai_model_format.wire.base import (
    DigestText,
    Ref,
    Request,
    Response,
    ShortText,
    Text,
    VersionName,
)

MAX_LOADED = 200
MAX_SHARES = 32
MAX_COUNT = 2**31 - 1
"""Largest integer of a column in Postgres."""

ADDRESS_PATTERN = r"^(\[[0-9a-fA-F:.]{2,45}\]|[0-9]{1,3}(\.[0-9]{1,3}){3}):[0-9]{1,5}$"


def _check_port(address: str) -> str:
    if not 1 <= int(address.rpartition(":")[2]) <= 65_535:
        raise ValueError("the port must be from 1 to 65535")
    return address


Address = Annotated[
    str,
    Field(pattern=ADDRESS_PATTERN, description="IP:PORT, an IPv6 address in brackets"),
    AfterValidator(_check_port),
]
BasisPoints = Annotated[int, Field(strict=True, ge=1, le=10_000)]
Flag = Annotated[bool, Field(strict=True)]
Reason = Annotated[Text, Field(max_length=4096)]


# Endpoints


class LoadedVersion(Request):
    """A version that a server has loaded, and the manifest digest of what it loaded."""

    version: VersionName
    digest: DigestText


class EndpointRequest(Request):
    """Say that a server lives, and what it has loaded. Send it again before the TTL ends."""

    versions: Annotated[list[LoadedVersion], Field(max_length=MAX_LOADED)]
    ttl_s: Annotated[int, Field(strict=True, ge=2, le=3600)] = 15
    draining: Annotated[
        bool, Field(strict=True, description="Finishes its requests, takes no new ones")
    ] = False


class LoadedInfo(Response):
    """A version that a server says it has loaded.

    ``matches`` is false where its digest is not the registry's; it gets no traffic then.
    """

    version: str
    digest: str
    since: datetime
    matches: bool


class EndpointInfo(Response):
    """An inference server under its lease."""

    model_id: str
    address: str
    state: Literal["live", "draining", "gone"]
    ttl_s: int
    registered_at: datetime
    last_beat_at: datetime
    versions: list[LoadedInfo]


class EndpointList(Response):
    """The servers of a model, by address."""

    endpoints: list[EndpointInfo]


# Routes


class ShareRequest(Request):
    """The share a version is to get."""

    version: Ref
    basis_points: BasisPoints


class RouteRequest(Request):
    """Split a model's traffic. ``force`` goes past the checks that say so."""

    shares: Annotated[list[ShareRequest], Field(min_length=1, max_length=MAX_SHARES)]
    shadow: Annotated[
        ShareRequest | None, Field(description="Gets copies of requests; its answers are dropped")
    ] = None
    reason: Reason | None = None
    force: Flag = False


class RollbackRequest(Request):
    """Go back to the split before, or to that of a revision."""

    to_revision: Annotated[int, Field(strict=True, ge=1, le=MAX_COUNT)] | None = None
    reason: Reason | None = None
    force: Flag = False


class ShareInfo(Response):
    """The share of a version, pinned to its manifest digest."""

    version: str
    manifest_digest: str
    basis_points: int
    live_endpoints: int = 0


RouteChangeKind = Literal["set", "rollback", "rollout"]


class StandbyInfo(Response):
    """A version that is to be loaded though it has no share, by its manifest digest."""

    version: str
    manifest_digest: str


class RouteInfo(Response):
    """A model's split of traffic at one revision.

    Attributes:
        revision: counts the changes of this model's route; 0 where there is none yet.
        standby: what traffic may return to at any moment: servers that follow the route
            keep these loaded too. Of the route that holds; the history has none.
        routing_revision: of everything gateways are told; a gateway that shows it, or a
            later one, has applied this route.
    """

    model_id: str
    revision: int
    shares: list[ShareInfo]
    shadow: ShareInfo | None = None
    standby: list[StandbyInfo] = []
    kind: RouteChangeKind | None = None
    reason: str | None = None
    created_at: datetime | None = None
    created_by: str | None = None
    routing_revision: int = 0


class RouteHistory(Response):
    """A model's route from its newest revision back."""

    revisions: list[RouteInfo]


# Gateways


class GatewayInfo(Response):
    """A gateway, and the revision of the routing data it has applied."""

    gateway_id: str
    clusters_revision: int
    routes_revision: int
    seen_at: datetime


class GatewayList(Response):
    """Gateways that asked for configuration in the last hour."""

    gateways: list[GatewayInfo]
    routing_revision: int


class VersionFigures(Request):
    """What one gateway counted for one version since it started, never falling.

    Attributes:
        model_id: of the version.
        version: that answered.
        requests: answered or failed.
        errors: of them, answers of 500 and above and connections that broke.
        latency_ms: how many answers took up to so many milliseconds, by upper bound.
    """

    model_id: ShortText
    version: VersionName
    requests: Annotated[int, Field(strict=True, ge=0, le=2**53)]
    errors: Annotated[int, Field(strict=True, ge=0, le=2**53)]
    latency_ms: Annotated[
        dict[
            Annotated[str, Field(pattern=r"^[0-9]{1,9}$")],
            Annotated[int, Field(strict=True, ge=0, le=2**53)],
        ],
        Field(max_length=100),
    ] = {}


class FiguresRequest(Request):
    """What a gateway counted. ``epoch`` names one life of the gateway."""

    epoch: ShortText
    versions: Annotated[list[VersionFigures], Field(max_length=10_000)]


# Rollouts

RolloutState = Literal["running", "paused", "succeeded", "rolled_back", "aborted"]


class RolloutRequest(Request):
    """Give a version more traffic step by step, as long as its figures are good.

    Attributes:
        version: which.
        steps: shares in basis points, rising; the last is what it ends with.
        interval_s: how long each step is watched before the next.
        max_error_rate: errors per request above which it is rolled back.
        max_p99_ms: 99th percentile of latency above which it is rolled back.
        min_requests: below which a step is neither good nor bad.
        reason: for the history.
    """

    version: Ref
    steps: Annotated[list[BasisPoints], Field(min_length=1, max_length=100)]
    interval_s: Annotated[float, Field(strict=True, gt=0, le=30 * 86400)] = 600
    max_error_rate: Annotated[float, Field(strict=True, ge=0, le=1)] = 0.01
    max_p99_ms: Annotated[float, Field(strict=True, gt=0, le=MAX_COUNT)] | None = None
    min_requests: Annotated[int, Field(strict=True, ge=1, le=MAX_COUNT)] = 100
    reason: Reason | None = None


class RolloutFigures(Response):
    """What was counted for the version in the present step."""

    requests: int = 0
    errors: int = 0
    error_rate: float | None = None
    p99_ms: float | None = None


class RolloutInfo(Response):
    """A rollout, and how far it is.

    Attributes:
        step: index of the present one in ``steps``.
        waiting: why it does not go on although it runs, such as too little traffic.
        why: the reason of the last change of state.
    """

    rollout_id: str
    model_id: str
    version: str
    state: RolloutState
    steps: list[int]
    step: int
    interval_s: float
    max_error_rate: float
    max_p99_ms: float | None
    min_requests: int
    figures: RolloutFigures
    waiting: str | None = None
    why: str | None = None
    started_at: datetime
    started_by: str
    step_started_at: datetime
    ended_at: datetime | None = None


class RolloutAction(Request):
    """Tell a rollout what to do."""

    action: Literal["pause", "resume", "abort", "promote"]
    reason: Reason | None = None
