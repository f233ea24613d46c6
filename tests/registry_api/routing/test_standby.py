"""What servers are to keep loaded, so that a way back leads somewhere."""

import pytest
from sqlalchemy import Engine, select, text

from ai_model_format.traffic import WHOLE
from ai_model_format.wire import RollbackRequest, RolloutAction, RolloutInfo, RolloutRequest
from registry_api.db.session import transaction
from registry_api.db.tables import EventRow
from registry_api.rollout import service, tick
from registry_api.routing import routes
from registry_api.routing.errors import JumpTooLarge, VersionIsYanked, VersionNotLoaded
from tests.registry_api.routing.split import CALLER, MODEL, beat, change
from tests.services.envoy import digest_for


def standby(engine: Engine) -> dict[str, str]:
    with transaction(engine) as session:
        route = routes.show(session, MODEL)
    return {one.version: one.manifest_digest for one in route.standby}


def start(engine: Engine, version: str, *steps: int) -> RolloutInfo:
    with transaction(engine) as session:
        wanted = RolloutRequest(version=version, steps=list(steps))
        return service.start(session, CALLER, MODEL, wanted)


def act(engine: Engine, action: str) -> RolloutInfo:
    with transaction(engine) as session:
        return service.act(session, CALLER, MODEL, RolloutAction(action=action))


def test_the_revision_before_stands_by(registry: Engine) -> None:
    assert standby(registry) == {}
    assert change(registry, shares={"v1": WHOLE}).standby == []
    change(registry, shares={"v1": 5000, "v2": 5000})
    assert standby(registry) == {}, "both have a share"
    moved = change(registry, shares={"v2": WHOLE})
    assert standby(registry) == {"v1": digest_for(MODEL, "v1")}
    assert [one.version for one in moved.standby] == ["v1"]
    with transaction(registry) as session:
        routes.rollback(session, CALLER, MODEL, RollbackRequest(to_revision=1))
    assert standby(registry) == {"v2": digest_for(MODEL, "v2")}


def test_what_a_rollout_goes_back_to_stands_by_until_it_ended(registry: Engine) -> None:
    change(registry, shares={"v1": WHOLE})
    start(registry, "v2", 5000, 10_000)
    assert standby(registry) == {}
    with transaction(registry) as session:
        session.execute(text("UPDATE rollout SET step = 1"))
    change(registry, shares={"v2": WHOLE})
    change(registry, shares={"v2": WHOLE}, reason="again")
    assert standby(registry) == {"v1": digest_for(MODEL, "v1")}, "not only the revision before"


def test_after_a_promote_the_way_back_stands_by(registry: Engine) -> None:
    change(registry, shares={"v1": WHOLE})
    start(registry, "v2", 1000, 10_000)
    act(registry, "promote")
    assert standby(registry) == {"v1": digest_for(MODEL, "v1")}


def test_a_rollout_may_begin_before_a_server_has_the_version(registry: Engine) -> None:
    change(registry, shares={"v1": WHOLE})
    start(registry, "v3", 1000, 10_000)
    tick.tick(registry)
    with transaction(registry) as session:
        route, said = routes.show(session, MODEL), service.show(session, MODEL)
    assert {s.version: s.live_endpoints for s in route.shares} == {"v1": 1, "v3": 0}
    assert (said.state, said.waiting) == ("running", "no live server has the version loaded")


def test_a_rollout_does_not_begin_where_nobody_would_answer(registry: Engine) -> None:
    change(registry, shares={"v1": 5000, "v3": 5000}, force=True)
    with pytest.raises(VersionNotLoaded):
        start(registry, "v3", 10_000)
    with pytest.raises(JumpTooLarge):
        start(registry, "v2", 6000)


def test_a_promote_is_held_to_what_a_route_is(registry: Engine) -> None:
    change(registry, shares={"v1": WHOLE})
    start(registry, "v3", 1000, 5000)
    with pytest.raises(VersionNotLoaded):
        act(registry, "promote")
    beat(registry, "10.0.0.3:80", "v3")
    _yank(registry, "v3", "now()")
    with pytest.raises(VersionIsYanked):
        act(registry, "promote")
    _yank(registry, "v3", "NULL")
    assert act(registry, "promote").state == "succeeded"
    with transaction(registry) as session:
        action = EventRow.action == "rollout.succeeded"
        event = session.scalars(select(EventRow).where(action)).one()
    assert event.after["basis_points"] == WHOLE, "what it has, not what the last step said"


def _yank(engine: Engine, version: str, moment: str) -> None:
    with transaction(engine) as session:
        session.execute(text(f"UPDATE version SET yanked_at = {moment} WHERE name = '{version}'"))
