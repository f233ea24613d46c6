"""What Envoy counts for each version, from its admin pages. Pure.

Requests and errors stand per server in ``/clusters``: a chain's share is
counted where it was answered. Latencies stand per cluster in ``/stats``, those
of a chain under its first version.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ai_model_format.gateway import ClusterName, parse_cluster_name, stat_name
from ai_model_format.wire import VersionFigures

Json = Mapping[str, Any]
Version = tuple[str, str]
"""Model id and version."""
Counter = tuple[str, ...]
"""Where a counter stands in Envoy: cluster, and server or upper bound."""


@dataclass
class Totals:
    """Sums that never fall, though Envoy's counters go with their servers and restarts."""

    _last: dict[Counter, int] = field(default_factory=dict)
    requests: dict[Version, int] = field(default_factory=lambda: defaultdict(int))
    errors: dict[Version, int] = field(default_factory=lambda: defaultdict(int))
    latency_ms: dict[Version, dict[str, int]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(int))
    )

    def add(self, clusters: Json, stats: Json) -> None:
        """Add what was counted since the last time."""
        seen: dict[Counter, int] = {}
        for version, counter, value in _requests(clusters):
            self.requests[version] += self._gain(seen, (*counter, "requests"), value)
        for version, counter, value in _errors(clusters):
            gain = self._gain(seen, (*counter, "errors"), value)
            self.errors[version] += gain
            self.requests[version] += gain
        for version, counter, value in _latencies(clusters, stats):
            self.latency_ms[version][counter[-1]] += self._gain(seen, counter, value)
        self._last = seen

    def figures(self) -> list[VersionFigures]:
        """Return the sums as they are sent."""
        return [
            VersionFigures(
                model_id=version[0],
                version=version[1],
                requests=requests,
                errors=self.errors[version],
                latency_ms=dict(self.latency_ms[version]),
            )
            for version, requests in sorted(self.requests.items())
        ]

    def _gain(self, seen: dict[Counter, int], counter: Counter, value: int) -> int:
        seen[counter] = value
        before = self._last.get(counter, 0)
        return value - before if value >= before else value


def _hosts(clusters: Json) -> Iterator[tuple[ClusterName, str, dict[str, int]]]:
    for cluster in clusters.get("cluster_statuses", []):
        name = parse_cluster_name(cluster["name"])
        if name is None or name.fallback:
            continue
        for host in cluster.get("host_statuses", []):
            socket = host["address"]["socket_address"]
            address = f"{socket['address']}:{socket['port_value']}"
            yield name, address, {s["name"]: int(s.get("value", 0)) for s in host["stats"]}


def _requests(clusters: Json) -> Iterator[tuple[Version, Counter, int]]:
    for name, address, stats in _hosts(clusters):
        yield (name.model_id, name.version), (str(name), address), stats.get("rq_success", 0)


def _errors(clusters: Json) -> Iterator[tuple[Version, Counter, int]]:
    for name, address, stats in _hosts(clusters):
        yield (name.model_id, name.version), (str(name), address), stats.get("rq_error", 0)


def _latencies(clusters: Json, stats: Json) -> Iterator[tuple[Version, Counter, int]]:
    by_stat_name = {
        f"cluster.{stat_name(cluster['name'])}.upstream_rq_time": parse_cluster_name(
            cluster["name"]
        )
        for cluster in clusters.get("cluster_statuses", [])
    }
    for histogram in _histograms(stats):
        name = by_stat_name.get(histogram["name"])
        if name is None:
            continue
        for bucket in histogram["buckets"]:
            counter = ("latency", str(name), str(int(bucket["upper_bound"])))
            yield (name.model_id, name.version), counter, int(bucket["cumulative"])


def _histograms(stats: Json) -> Iterator[Json]:
    for entry in stats.get("stats", []):
        yield from entry.get("histograms", [])
