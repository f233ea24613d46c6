"""What a route is held to: refusals, one winner, a history that is complete."""

import random
import threading
from collections.abc import Callable

import pytest
from sqlalchemy import Engine, func, select, text
from sqlalchemy.exc import DBAPIError

from ai_model_format.traffic import WHOLE, move
from ai_model_format.wire import (
    RollbackRequest,
    RouteInfo,
    ShareRequest,
)
from registry_api.db.session import transaction
from registry_api.db.tables import EventRow
from registry_api.errors import RegistryError
from registry_api.routing import clock, endpoints, routes
from registry_api.routing.errors import (
    EndpointNotFound,
    InvalidRoute,
    JumpTooLarge,
    RevisionNotFound,
    RouteChanged,
    VersionIsYanked,
    VersionNotLoaded,
)
from registry_api.routing.tables import EndpointRow, LeaseWatchRow, RouteRevisionRow
from registry_api.xds.load import load_state
from tests.registry_api.routing.split import CALLER, MODEL, beat, change
from tests.services.envoy import digest_for


def split(route: RouteInfo) -> dict[str, int]:
    return {share.version: share.basis_points for share in route.shares}


def refused(kind: type[RegistryError], call: Callable[[], object], *, way_out: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert way_out in caught.value.detail


def test_a_route_is_pinned_to_digests(registry: Engine) -> None:
    route = change(registry, expected=0, shares={"v1": WHOLE}, reason="first")
    assert route.revision == 1
    assert route.shares[0].manifest_digest == digest_for(MODEL, "v1")
    assert route.shares[0].live_endpoints == 1


def test_what_no_server_has_loaded_gets_nothing(registry: Engine) -> None:
    change(registry, shares={"v1": WHOLE})
    shares = {"v1": 9500, "v3": 500}
    refused(VersionNotLoaded, lambda: change(registry, shares=shares), way_out="ai-model watch")
    assert change(registry, shares=shares, force=True).revision == 2


def test_a_server_with_other_bytes_does_not_count(registry: Engine) -> None:
    beat(registry, "10.0.0.3:80", "v3", digest="sha256:" + "0" * 64)
    change(registry, shares={"v1": WHOLE})
    with pytest.raises(VersionNotLoaded):
        change(registry, shares={"v1": 9500, "v3": 500})
    model = next(m for m in load_state(registry).models if m.model_id == MODEL)
    assert model.loaded == {"v1", "v2"}


def test_a_yanked_version_gets_nothing_more(registry: Engine) -> None:
    change(registry, shares={"v1": 9000, "v2": 1000})
    with transaction(registry) as session:
        session.execute(
            text("UPDATE version SET yanked_at = now(), yank_reason = 'bad' WHERE name = 'v2'")
        )
    refused(
        VersionIsYanked,
        lambda: change(registry, shares={"v1": 8000, "v2": 2000}),
        way_out="take the yank back",
    )
    assert change(registry, shares={"v1": 9500, "v2": 500}).revision == 2, "away from it works"


def test_more_than_half_at_once_needs_force(registry: Engine) -> None:
    change(registry, shares={"v1": WHOLE})
    shares = {"v1": 4999, "v2": 5001}
    refused(JumpTooLarge, lambda: change(registry, shares=shares), way_out="force")
    assert change(registry, shares={"v1": 5000, "v2": 5000}).revision == 2
    assert change(registry, shares={"v2": WHOLE}).revision == 3


@pytest.mark.parametrize("shares", [{"v1": 9999}, {"v1": 10_000, "v2": 1}])
def test_shares_that_are_no_split(registry: Engine, shares: dict[str, int]) -> None:
    with pytest.raises(InvalidRoute):
        change(registry, shares=shares)


def test_two_who_start_from_the_same_revision(registry: Engine) -> None:
    change(registry, expected=0, shares={"v1": WHOLE})
    change(registry, expected=1, shares={"v1": 9500, "v2": 500})
    with pytest.raises(RouteChanged, match="revision 2, not 1"):
        change(registry, expected=1, shares={"v1": 9000, "v2": 1000})


def test_the_same_change_sent_again_is_the_same_revision(registry: Engine) -> None:
    first = change(registry, expected=0, shares={"v1": WHOLE})
    assert change(registry, expected=0, shares={"v1": WHOLE}).revision == first.revision
    with pytest.raises(RouteChanged):  # somebody else who wants the same, of a token that is shared
        change(registry, expected=0, shares={"v1": WHOLE}, reason="mine")


def test_rollback_returns_exactly_and_twice_returns_here(registry: Engine) -> None:
    change(registry, shares={"v1": WHOLE})
    change(registry, shares={"v1": 9500, "v2": 500})
    change(registry, shares={"v1": 6000, "v2": 4000})
    cohorts = {row.revision: row.cohorts for row in _history(registry)}
    with transaction(registry) as session:
        back = routes.rollback(session, CALLER, MODEL, RollbackRequest())
    assert split(back) == {"v1": 9500, "v2": 500}
    with transaction(registry) as session:
        again = routes.rollback(session, CALLER, MODEL, RollbackRequest())
    assert split(again) == {"v1": 6000, "v2": 4000}
    with transaction(registry) as session:
        routes.rollback(session, CALLER, MODEL, RollbackRequest(to_revision=1))
    after = {row.revision: row.cohorts for row in _history(registry)}
    assert (after[4], after[5], after[6]) == (cohorts[2], cohorts[3], cohorts[1])


def test_the_same_rollback_sent_again_stays_there(registry: Engine) -> None:
    change(registry, shares={"v1": WHOLE})
    change(registry, shares={"v1": 9500, "v2": 500})
    for _ in range(2):
        with transaction(registry) as session:
            back = routes.rollback(session, CALLER, MODEL, RollbackRequest(), expected=2)
        assert (back.revision, split(back)) == (3, {"v1": WHOLE})
    change(registry, shares={"v1": 9000, "v2": 1000})
    with transaction(registry) as session, pytest.raises(RouteChanged):
        routes.rollback(session, CALLER, MODEL, RollbackRequest(), expected=2)
    change(registry, shares={"v1": WHOLE})
    with transaction(registry) as session, pytest.raises(RouteChanged):
        routes.rollback(session, CALLER, MODEL, RollbackRequest(to_revision=1), expected=4)


def test_a_dead_shadow_keeps_nobody_from_moving_the_route(registry: Engine) -> None:
    def shadow(share: int) -> ShareRequest:
        return ShareRequest(version="v3", basis_points=share)

    beat(registry, "10.0.0.3:80", "v3")
    change(registry, shares={"v1": 9000, "v2": 1000}, shadow=shadow(5000))
    beat(registry, "10.0.0.3:80")
    away = change(registry, shares={"v1": WHOLE}, shadow=shadow(5000))
    assert away.shadow is not None
    assert change(registry, shares={"v1": WHOLE}, shadow=shadow(100)).revision == 3
    with pytest.raises(VersionNotLoaded):
        change(registry, shares={"v1": WHOLE}, shadow=shadow(5000))


def test_a_yanked_version_gets_no_copies(registry: Engine) -> None:
    with transaction(registry) as session:
        session.execute(text("UPDATE version SET yanked_at = now() WHERE name = 'v2'"))
    shadow = ShareRequest(version="v2", basis_points=100)
    with pytest.raises(VersionIsYanked):
        change(registry, shares={"v1": WHOLE}, shadow=shadow)


def test_there_is_nothing_before_the_first_revision(registry: Engine) -> None:
    change(registry, shares={"v1": WHOLE})
    with transaction(registry) as session, pytest.raises(RevisionNotFound):
        routes.rollback(session, CALLER, MODEL, RollbackRequest())


def test_every_change_is_an_event_with_before_after_and_why(registry: Engine) -> None:
    change(registry, shares={"v1": WHOLE})
    change(registry, shares={"v1": 9500, "v2": 500}, reason="looks good")
    with transaction(registry) as session:
        event = session.scalars(
            select(EventRow).where(EventRow.action == "route.changed").order_by(EventRow.id.desc())
        ).first()
    assert event is not None
    assert event.actor == CALLER.name
    assert event.before["shares"] == {"v1": WHOLE}
    assert event.after["shares"] == {"v1": 9500, "v2": 500}
    assert event.after["reason"] == "looks good"


@pytest.mark.parametrize("change_it", ["UPDATE route_revision SET kind = 'x'",
                                       "DELETE FROM route_revision"])  # fmt: skip
def test_history_cannot_be_changed(registry: Engine, change_it: str) -> None:
    with registry.connect() as connection, pytest.raises(DBAPIError, match="never changed"):
        connection.execute(text(change_it))


def test_the_database_itself_insists_on_the_whole(registry: Engine) -> None:
    with registry.connect() as connection, pytest.raises(DBAPIError, match="shares_are_whole"):
        connection.execute(
            text("""
                INSERT INTO route_revision (model_id, revision, shares, cohorts, kind,
                                            routing_revision, created_by)
                SELECT id, 99, '[{"version": "v1", "basis_points": 9999}]', '[]', 'set', 1, 'x'
                FROM model
            """)
        )


def test_a_hundred_moves_by_ten_clients_at_once(registry: Engine) -> None:
    change(registry, shares={"v1": WHOLE})

    def client(seed: int) -> None:
        rng = random.Random(seed)
        done = 0
        while done < 10:
            with transaction(registry) as session:
                now = routes.show(session, MODEL)
            wanted = move(split(now), {rng.choice(["v1", "v2", "v3"]): rng.randrange(1, WHOLE)}
                          if len(now.shares) > 1 else {"v2": rng.randrange(1, WHOLE)})  # fmt: skip
            try:
                change(registry, expected=now.revision, shares=wanted, force=True,
                       reason=f"{seed}-{done}")  # fmt: skip
                done += 1
            except RouteChanged:
                pass

    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = _history(registry)
    assert [row.revision for row in rows] == list(range(1, 102))
    assert {row.reason for row in rows} == {None} | {
        f"{s}-{n}" for s in range(10) for n in range(10)
    }
    for row in rows:
        assert sum(share["basis_points"] for share in row.shares) == WHOLE
        assert sum(width for _, width in row.cohorts) == WHOLE
    with transaction(registry) as session:
        moves = select(func.count()).where(EventRow.action == "route.changed")
        assert session.scalar(moves) == 101


def test_silence_ends_a_lease_and_a_beat_brings_it_back(registry: Engine) -> None:
    _pass_time(registry, endpoint_s=100, up_s=1000)
    assert _tick(registry) == 2
    assert _loaded(registry) == set()
    beat(registry, "10.0.0.1:80", "v1")
    assert _loaded(registry) == {"v1"}


def test_a_server_that_comes_back_with_another_version_is_live(registry: Engine) -> None:
    _pass_time(registry, endpoint_s=100, up_s=1000)
    _tick(registry)
    beat(registry, "10.0.0.1:80", "v3")
    assert _loaded(registry) == {"v3"}


def test_nobody_is_cut_off_before_two_ttls_after_the_registry_was_away(registry: Engine) -> None:
    _pass_time(registry, endpoint_s=0, up_s=1000, ticked_s=2)
    with transaction(registry) as session:
        clock.came_back(session)
    _pass_time(registry, endpoint_s=100, up_s=29)
    assert _tick(registry) == 0, "15 s of TTL, 29 s up"
    _pass_time(registry, endpoint_s=0, up_s=2)
    assert _tick(registry) == 2


def test_a_process_that_starts_beside_others_gives_nobody_more_time(registry: Engine) -> None:
    _pass_time(registry, endpoint_s=100, up_s=1000)
    with transaction(registry) as session:
        clock.came_back(session)
    assert _tick(registry) == 2


def test_a_gap_between_ticks_is_the_registry_being_away(registry: Engine) -> None:
    _pass_time(registry, endpoint_s=100, up_s=1000, ticked_s=6)
    assert _tick(registry) == 0


def test_a_draining_server_leaves_at_once_and_a_beat_bumps_nothing(registry: Engine) -> None:
    before = load_state(registry).revision
    beat(registry, "10.0.0.2:80", "v2")
    assert load_state(registry).revision == before
    beat(registry, "10.0.0.2:80", "v2", draining=True)
    state = load_state(registry)
    assert state.revision == before + 1
    assert state.models[0].loaded == {"v1"}
    assert "v2" in state.models[0].lingering, "its cluster stays until routes are taken back"


def test_a_server_that_is_taken_out_leaves_at_once_and_may_come_back(registry: Engine) -> None:
    for _ in range(2):
        with transaction(registry) as session:
            endpoints.remove(session, CALLER, MODEL, "10.0.0.2:80")
    assert _loaded(registry) == {"v1"}
    with transaction(registry) as session, pytest.raises(EndpointNotFound):
        endpoints.remove(session, CALLER, MODEL, "10.0.0.9:80")
    with transaction(registry) as session:
        removed = select(func.count()).where(EventRow.action == "endpoint.removed")
        assert session.scalar(removed) == 1, "taken out once, told once"
    beat(registry, "10.0.0.2:80", "v2")
    assert _loaded(registry) == {"v1", "v2"}


def _history(engine: Engine) -> list[RouteRevisionRow]:
    with transaction(engine) as session:
        return list(session.scalars(select(RouteRevisionRow).order_by(RouteRevisionRow.revision)))


def _pass_time(engine: Engine, *, endpoint_s: int, up_s: int, ticked_s: int = 0) -> None:
    def ago(seconds: int) -> object:
        return func.make_interval(0, 0, 0, 0, 0, 0, seconds)

    with transaction(engine) as session:
        session.query(EndpointRow).update(
            {"last_beat_at": EndpointRow.last_beat_at - ago(endpoint_s)}
        )
        session.query(LeaseWatchRow).update(
            {
                "up_since": LeaseWatchRow.up_since - ago(up_s),
                "ticked_at": func.clock_timestamp() - ago(ticked_s),
            }
        )


def _tick(engine: Engine) -> int:
    with transaction(engine) as session:
        return clock.tick(session)


def _loaded(engine: Engine) -> set[str]:
    models = load_state(engine).models
    return set(models[0].loaded) if models else set()
