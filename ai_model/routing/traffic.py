"""What ``Registry.traffic`` is: the calls of the REST interface, and moves made of them."""

from collections.abc import Mapping

from ai_model.errors import UsageError
from ai_model.routing import changes
from ai_model.routing.api import TrafficApi
from ai_model.routing.changes import RouteChange
from ai_model.routing.effect import Effect, wait_for_effect
from ai_model_format import wire
from ai_model_format.traffic import InvalidShare, parse_share


class Traffic(TrafficApi):
    """Traffic of one registry. Safe to use from threads.

    Shares are written as the command takes them: ``"5%"``, or ``"5"``.
    """

    def move(
        self,
        model_id: str,
        shares: Mapping[str, str],
        *,
        reason: str | None = None,
        force: bool = False,
        dry_run: bool = False,
    ) -> RouteChange:
        """Give versions these shares; the others keep their proportions.

        Raises:
            UsageError: the shares make no split.
            ResourceConflict: the service refuses and says why, or somebody changed the route
                meanwhile.
        """
        parsed = {version: _share(share) for version, share in shares.items()}
        return changes.change_route(
            self, model_id, parsed, reason=reason, force=force, dry_run=dry_run
        )

    def promote(
        self, model_id: str, version: str, *, reason: str | None = None, force: bool = False
    ) -> RouteChange:
        """Give a version all traffic.

        Raises:
            ResourceConflict: as for ``move``.
        """
        return changes.promote(self, model_id, version, reason=reason, force=force)

    def shadow(
        self,
        model_id: str,
        version: str,
        share: str,
        *,
        reason: str | None = None,
        force: bool = False,
    ) -> RouteChange:
        """Send a copy of a share of the requests to a version; ``"0"`` ends it.

        Raises:
            UsageError: the model has no route whose requests could be copied.
            ResourceConflict: as for ``move``.
        """
        return changes.shadow_route(
            self, model_id, version, _share(share), reason=reason, force=force
        )

    def go_back(
        self,
        model_id: str,
        *,
        to_revision: int | None = None,
        reason: str | None = None,
        force: bool = False,
    ) -> RouteChange:
        """Return to the split before, or to that of a revision.

        Raises:
            ResourceConflict: as for ``move``.
        """
        return changes.roll_back(
            self, model_id, to_revision=to_revision, reason=reason, force=force
        )

    def wait_for_effect(self, route: wire.RouteInfo, *, timeout_s: float = 10.0) -> Effect:
        """Return when every live gateway follows ``route``, or the time is over."""
        return wait_for_effect(self, route, timeout_s=timeout_s)


def _share(text: str) -> int:
    try:
        return parse_share(text)
    except InvalidShare as error:
        raise UsageError(f"{str(error)[0].upper()}{str(error)[1:]}.") from error
