"""Laws of what gateways are told, whatever the state."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ai_model_format.gateway import ClusterName, parse_cluster_name, stat_name
from ai_model_format.traffic import WHOLE, normalise
from registry_api.xds import clusters, routes
from registry_api.xds.cohorts import reassign
from registry_api.xds.poll import Poll, answer
from registry_api.xds.state import ModelRouting, RoutingState, Server, Shadow

VERSIONS = st.sampled_from(["v1", "v2", "v2.4", "v3+x"])
SPLITS = st.dictionaries(VERSIONS, st.integers(1, 1000), min_size=1).map(normalise)
SERVERS = st.lists(
    st.builds(
        Server,
        st.integers(1, 60_000).map(lambda port: f"10.0.0.1:{port}"),
        st.frozensets(VERSIONS, min_size=1),
    ),
    max_size=4,
    unique_by=lambda server: server.address,
)
MODELS = st.builds(
    ModelRouting,
    st.sampled_from(["resnet50", "team/res.net", "team"]),
    SPLITS.map(lambda split: reassign((), split)) | st.just(()),
    SERVERS.map(tuple),
    st.none() | st.builds(Shadow, VERSIONS, st.integers(1, WHOLE)),
    st.frozensets(VERSIONS),
    st.lists(SPLITS, max_size=2).map(tuple),
)
STATES = st.lists(MODELS, max_size=3, unique_by=lambda model: model.model_id).map(
    lambda models: RoutingState(7, tuple(models))
)


def poll(kind: Any, state: RoutingState, *names: str) -> dict[str, Any]:
    asked = Poll(kind, "gateway", "", names, "registry.example.org", "x-user-id")
    return answer(asked, state)


def all_routes(state: RoutingState) -> list[dict[str, Any]]:
    (table,) = poll("routes", state)["resources"]
    found: list[dict[str, Any]] = table["virtual_hosts"][0]["routes"]
    return found


def targets(route: dict[str, Any]) -> Iterator[str]:
    action = route.get("route", {})
    if "cluster" in action:
        yield action["cluster"]
    for share in action.get("weighted_clusters", {}).get("clusters", []):
        yield share["name"]
    for mirror in action.get("request_mirror_policies", []):
        yield mirror["cluster"]


@given(STATES)
@settings(deadline=None)
def test_every_route_points_at_a_cluster_that_is_there(state: RoutingState) -> None:
    known = {cluster["name"] for cluster in poll("clusters", state)["resources"]}
    for route in all_routes(state):
        assert set(targets(route)) <= known
    for cluster in poll("clusters", state)["resources"]:
        chain = cluster.get("cluster_type", {}).get("typed_config", {}).get("clusters", [])
        assert set(chain) <= known


@given(MODELS, SERVERS)
@settings(deadline=None)
def test_routes_of_a_moment_ago_point_at_clusters_that_are_there(
    before: ModelRouting, servers: list[Server]
) -> None:
    """Servers come and go, and with them the version that others fall back to."""
    now = replace(before, servers=tuple(servers), lingering=before.loaded)
    clusters_now = poll("clusters", RoutingState(8, (now,)))["resources"]
    known = {cluster["name"] for cluster in clusters_now}
    for route in all_routes(RoutingState(7, (before,))):
        assert set(targets(route)) <= known


def shares_of(split: dict[str, int], *loaded: str) -> list[tuple[str, int]]:
    servers = tuple(Server(f"10.0.0.1:{n + 1}", frozenset({v})) for n, v in enumerate(loaded))
    state = RoutingState(1, (ModelRouting("m", reassign((), split), servers),))
    (route,) = [
        route
        for route in all_routes(state)
        if "weighted_clusters" in route.get("route", {})
        and "path_separated_prefix" in route["match"]
    ]
    shares = route["route"]["weighted_clusters"]["clusters"]
    return [(share["name"], share["weight"]) for share in shares]


def test_a_version_without_servers_falls_back_to_the_largest_that_has_some() -> None:
    split = {"v1": 2500, "v2": 7500}
    assert shares_of(split, "v1", "v2") == [("m@v1>v2", 2500), ("m@v2", 7500)]
    assert shares_of(split, "v1") == [("m@v1", 2500), ("m@v1", 7500)]
    assert shares_of(split, "v2") == [("m@v2", 2500), ("m@v2", 7500)]
    assert shares_of(split) == [("m@v2", 2500), ("m@v2", 7500)]
    three = {"v1": 1000, "v2": 3000, "v3": 6000}
    assert shares_of(three, "v1", "v2") == [("m@v1>v2", 1000), ("m@v2", 3000), ("m@v2", 6000)]


@given(STATES)
@settings(deadline=None)
def test_weights_are_whole_positive_and_go_to_who_has_the_version(state: RoutingState) -> None:
    models = {model.model_id: model for model in state.models}
    for route in all_routes(state):
        shares = route.get("route", {}).get("weighted_clusters", {}).get("clusters", [])
        if not shares:
            continue
        assert sum(share["weight"] for share in shares) == WHOLE
        for share in shares:
            assert share["weight"] > 0
            name = parse_cluster_name(share["name"])
            assert name is not None
            model = models[name.model_id]
            assert name.version in model.loaded | {model.stable}
            assert name.fallback in {None, model.stable}


@given(STATES)
@settings(deadline=None)
def test_pinned_routes_stand_first_and_never_fall_back(state: RoutingState) -> None:
    for model in state.models:
        path = f"/m/{model.model_id}"
        mine = [
            route for route in all_routes(state)
            if (route["match"].get("path_separated_prefix") or route["match"]["prefix"])
            .partition("@")[0] == path
        ]  # fmt: skip
        kinds = ["pinned" if "cluster" in r.get("route", {}) else
                 "weighted" if "route" in r else "none" for r in mine]  # fmt: skip
        assert kinds[: 2 * len(model.loaded)] == ["pinned"] * (2 * len(model.loaded))
        assert kinds[2 * len(model.loaded) :][:2] == ["none", "none"]
        for route in mine[: 2 * len(model.loaded)]:
            assert ">" not in route["route"]["cluster"]


@given(STATES, VERSIONS)
@settings(deadline=None)
def test_a_cluster_has_exactly_the_servers_with_the_version(
    state: RoutingState, version: str
) -> None:
    for model in state.models:
        name = clusters.version_cluster(model.model_id, version)
        (assignment,) = poll("endpoints", state, name)["resources"]
        sockets = [
            endpoint["endpoint"]["address"]["socket_address"]
            for endpoint in assignment["endpoints"][0]["lb_endpoints"]
        ]
        served = {f"{socket['address']}:{socket['port_value']}" for socket in sockets}
        assert served == {s.address for s in model.servers if version in s.versions}


def test_an_id_within_a_namespace_is_matched_before_the_namespace() -> None:
    ring = reassign((), {"v1": WHOLE})
    state = RoutingState(1, (ModelRouting("team", ring), ModelRouting("team/resnet", ring)))
    paths = [route["match"].get("path_separated_prefix") for route in all_routes(state)]
    assert paths.index("/m/team/resnet") < paths.index("/m/team")


def test_the_body_of_a_404_stays_within_what_envoy_sends() -> None:
    versions = frozenset("v" * 100 + str(number) for number in range(200))
    state = RoutingState(1, (ModelRouting("m", servers=(Server("10.0.0.1:80", versions),)),))
    for route in all_routes(state):
        body = route.get("direct_response", {}).get("body", {}).get("inline_string", "")
        assert len(body.encode()) <= 4096


def test_names_of_statistics_are_plain_and_apart() -> None:
    names = ["m@v2.4", "m@v2_4", "a/m@v2.4", "m@v2.4>v2.3"]
    plain = [stat_name(name) for name in names]
    assert len(set(plain)) == len(names)
    assert all("." not in name and "/" not in name for name in plain)


def test_cluster_names_are_read_as_written() -> None:
    for name in (ClusterName("team/m", "v1"), ClusterName("m", "v1", "v0")):
        assert parse_cluster_name(str(name)) == name
    assert parse_cluster_name("registry.example.org:443") is None
    assert routes.ROUTE_CONFIG == "ai-model", "the gateway's bootstrap asks for this name"
