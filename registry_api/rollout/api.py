"""HTTP of rollouts."""

from fastapi import APIRouter

from ai_model_format.wire import ModelId, RolloutAction, RolloutInfo, RolloutRequest
from registry_api.problems import responses
from registry_api.requests import DbSession, Reader, StrictRoute, Writer
from registry_api.rollout import service

router = APIRouter(
    prefix="/v1/models/{model_id:model_id}/rollouts", route_class=StrictRoute, tags=["traffic"]
)


@router.post("", status_code=201, responses=responses(401, 403, 404, 409, 422))
def start_rollout(
    model_id: ModelId, body: RolloutRequest, caller: Writer, session: DbSession
) -> RolloutInfo:
    """Give a version more traffic step by step, as long as its figures are good."""
    return service.start(session, caller, model_id, body)


@router.get("/newest", responses=responses(401, 403, 404, 422))
def get_rollout(model_id: ModelId, _: Reader, session: DbSession) -> RolloutInfo:
    """Return the model's newest rollout and what was counted in its present step."""
    return service.show(session, model_id)


@router.post("/newest", responses=responses(401, 403, 404, 409, 422))
def act_on_rollout(
    model_id: ModelId, body: RolloutAction, caller: Writer, session: DbSession
) -> RolloutInfo:
    """Pause, resume, abort or promote it."""
    return service.act(session, caller, model_id, body)
