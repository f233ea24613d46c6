"""What decides where a request goes, as values.

Everything a gateway is told follows from a ``RoutingState`` alone. Pure: the
database fills it in, ``clusters`` and ``routes`` read it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ai_model_format.traffic import Split, stable_version


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring basis points of the hash ring that one version serves."""

    version: str
    width: int


@dataclass(frozen=True, slots=True)
class Server:
    """A live endpoint that takes new requests.

    Attributes:
        address: ``host:port``.
        versions: it has loaded, with the digests the registry knows for them.
    """

    address: str
    versions: frozenset[str]


@dataclass(frozen=True, slots=True)
class Shadow:
    """A version that gets a copy of some requests; its answers are thrown away."""

    version: str
    basis_points: int


@dataclass(frozen=True, slots=True)
class ModelRouting:
    """One model: who serves it, and which share of its requests each version gets.

    Attributes:
        model_id: of the model.
        cohorts: the hash ring, 10,000 basis points in order; empty without a route.
        servers: live endpoints.
        shadow: of the route.
        lingering: versions that gateways may still point at: of servers that left
            and of routes replaced just now.
        former_splits: of routes replaced just now, whose chains gateways may still use.
    """

    model_id: str
    cohorts: tuple[Run, ...] = ()
    servers: tuple[Server, ...] = ()
    shadow: Shadow | None = None
    lingering: frozenset[str] = frozenset()
    former_splits: tuple[Split, ...] = ()

    @property
    def split(self) -> dict[str, int]:
        """Shares by version, in basis points; empty without a route."""
        return split_of(self.cohorts)

    @property
    def stable(self) -> str | None:
        """The version with the largest share of those that are loaded; else of all."""
        split, loaded = self.split, self.loaded
        served = {version: share for version, share in split.items() if version in loaded}
        return stable_version(served or split) if split else None

    @property
    def loaded(self) -> frozenset[str]:
        """Versions that at least one live server has loaded."""
        return frozenset(version for server in self.servers for version in server.versions)


@dataclass(frozen=True, slots=True)
class RoutingState:
    """All models at one revision of the routing data."""

    revision: int
    models: tuple[ModelRouting, ...]


def split_of(cohorts: Iterable[Run]) -> dict[str, int]:
    """Sum the runs of each version. Pure."""
    split: dict[str, int] = {}
    for run in cohorts:
        split[run.version] = split.get(run.version, 0) + run.width
    return split
