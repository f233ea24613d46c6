"""What can go wrong with rollouts, named for the fact."""

from registry_api.errors import RegistryError


class RolloutNotFound(RegistryError):
    """A model never had a rollout."""

    status, code, title = 404, "rollout_not_found", "No such rollout"

    def __init__(self, model_id: str) -> None:
        super().__init__(f"model {model_id!r} had no rollout yet")


class RolloutUnderWay(RegistryError):
    """A model has a rollout already; two would fight over its traffic."""

    status, code, title = 409, "rollout_under_way", "A rollout is under way"

    def __init__(self, model_id: str) -> None:
        super().__init__(
            f"model {model_id!r} has a rollout under way; promote or abort it, or wait for its end"
        )


class RolloutNotUnderWay(RegistryError):
    """A rollout that ended can do nothing more."""

    status, code, title = 409, "rollout_not_under_way", "The rollout has ended"

    def __init__(self, state: str) -> None:
        super().__init__(f"the rollout is {state} already; start another one")


class NothingToRollOutFrom(RegistryError):
    """A rollout takes traffic from a version that has it."""

    status, code, title = 409, "route_not_found", "The model has no route"

    def __init__(self, model_id: str) -> None:
        super().__init__(
            f"model {model_id!r} has no route yet, so there is no traffic to take over;"
            " give a version 100% first"
        )


class InvalidSteps(RegistryError):
    """Steps must lead up from the share the version has."""

    status, code, title = 422, "invalid_steps", "The steps do not rise"
