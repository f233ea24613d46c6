"""What can go wrong with traffic, named for the fact. Each detail ends with the way out."""

from ai_model_format.traffic import format_share
from registry_api.errors import RegistryError


class EndpointNotFound(RegistryError):
    """A model has no server at this address."""

    status, code, title = 404, "endpoint_not_found", "No such endpoint"

    def __init__(self, model_id: str, address: str) -> None:
        super().__init__(f"model {model_id!r} has no endpoint {address}")


class RevisionNotFound(RegistryError):
    """A route has no such revision to go back to."""

    status, code, title = 404, "revision_not_found", "No such revision of the route"

    def __init__(self, model_id: str, revision: int) -> None:
        super().__init__(
            f"the route of {model_id!r} has no revision {revision} to go back to;"
            " its history lists those there are"
        )


class VersionIsYanked(RegistryError):
    """Traffic was to go to a version that is not to be used."""

    status, code, title = 409, "version_yanked", "The version is yanked"

    def __init__(self, version: str, reason: str | None) -> None:
        why = f" ({reason})" if reason else ""
        super().__init__(f"version {version!r} is yanked{why}; take the yank back, or force it")


class VersionNotReady(RegistryError):
    """Traffic was to go to a version whose push has not ended."""

    status, code, title = 409, "version_not_ready", "The version is not ready"

    def __init__(self, version: str, state: str) -> None:
        doing = "its bytes are being verified" if state == "verifying" else "bytes are on their way"
        super().__init__(
            f"version {version!r} is still being pushed ({doing}); wait until its push has ended"
        )


class VersionNotLoaded(RegistryError):
    """Traffic was to go where nobody could answer it."""

    status, code, title = 409, "version_not_loaded", "No live server has the version loaded"

    def __init__(self, model_id: str, version: str) -> None:
        super().__init__(
            f"no live server of {model_id!r} has version {version!r} loaded, so its requests would"
            " fail; start a server that loads it (ai-model watch), or force it"
        )


class JumpTooLarge(RegistryError):
    """A version would gain more than half of all traffic in one change."""

    status, code, title = 409, "jump_too_large", "The version would gain too much at once"

    def __init__(self, version: str, before: int, after: int) -> None:
        super().__init__(
            f"version {version!r} would go from {format_share(before)} to {format_share(after)}"
            " at once; take a step of at most 50%, or force it"
        )


class InvalidRoute(RegistryError):
    """The shares are no split."""

    status, code, title = 422, "invalid_route", "The shares are no split"


class RouteChanged(RegistryError):
    """Somebody else changed the route first."""

    status, code, title = 412, "precondition_failed", "The route has changed in the meantime"

    def __init__(self, expected: int, current: int) -> None:
        super().__init__(
            f"the route is at revision {current}, not {expected}: somebody changed it;"
            " look at it and decide again"
        )
