"""What servers are to keep loaded, so that a way back leads somewhere."""

from sqlalchemy import Engine, text

from ai_model_format.traffic import WHOLE
from ai_model_format.wire import RollbackRequest, RolloutAction, RolloutInfo, RolloutRequest
from registry_api.db.session import transaction
from registry_api.rollout import service
from registry_api.routing import routes
from tests.registry_api.routing.split import CALLER, MODEL, change
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
