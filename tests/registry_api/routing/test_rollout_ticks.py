"""Ticks of rollouts in Postgres: nobody waits for a lock, and each stands for itself."""

import threading

import pytest
from sqlalchemy import Engine, select, text

from ai_model_format.traffic import WHOLE
from ai_model_format.wire import RolloutRequest
from registry_api.db.session import transaction
from registry_api.rollout import service, tick
from registry_api.rollout.tables import RolloutRow
from registry_api.routing import queries
from tests.registry_api.routing.split import CALLER, MODEL, add_model, beat, change

OTHER = "team/other"
HANGS_S = 30.0


@pytest.fixture
def rollouts(registry: Engine) -> Engine:
    """Two models with a rollout each, of versions that were yanked since."""
    add_model(registry, OTHER)
    beat(registry, "10.0.1.1:80", "v1", model_id=OTHER)
    for model_id in (MODEL, OTHER):
        change(registry, model_id=model_id, shares={"v1": WHOLE})
        with transaction(registry) as session:
            wanted = RolloutRequest(version="v2", steps=[1000, 5000])
            service.start(session, CALLER, model_id, wanted)
    with transaction(registry) as session:
        session.execute(text("UPDATE version SET yanked_at = now() WHERE name = 'v2'"))
    return registry


def state(engine: Engine, model_id: str) -> str:
    with transaction(engine) as session:
        return service.show(session, model_id).state


@pytest.mark.parametrize(("held", "free"), [(MODEL, OTHER), (OTHER, MODEL)])
def test_a_tick_leaves_a_model_that_is_locked_to_the_next_one(
    rollouts: Engine, held: str, free: str
) -> None:
    with transaction(rollouts) as session:
        queries.model_row(session, held, lock=True)
        ticking = threading.Thread(target=tick.tick, args=(rollouts,), daemon=True)
        ticking.start()
        ticking.join(HANGS_S)
        assert not ticking.is_alive(), "it waits for whoever has the model"
        assert (state(rollouts, held), state(rollouts, free)) == ("running", "rolled_back")
    tick.tick(rollouts)
    assert state(rollouts, held) == "rolled_back"


def test_a_rollout_that_fails_leaves_the_others_alone(
    rollouts: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    with transaction(rollouts) as session:
        first = session.scalars(select(RolloutRow).order_by(RolloutRow.id)).first()
        assert first is not None
        first.first_revision = 99  # there is no such split to go back to
    tick.tick(rollouts)
    assert "could not go on" in caplog.text
    assert {state(rollouts, MODEL), state(rollouts, OTHER)} == {"running", "rolled_back"}
