"""Change a model's route from what it is now, losing nobody else's change."""

from collections.abc import Mapping
from dataclasses import dataclass

from ai_model.errors import NotFound, UsageError
from ai_model.routing.api import TrafficApi
from ai_model_format import wire
from ai_model_format.traffic import WHOLE, InvalidSplit, move


@dataclass(frozen=True, slots=True)
class RouteChange:
    """A route before and after a change.

    Attributes:
        before: the revision it started from.
        after: the new one; where nothing was done, what it would be.
        done: whether it holds now.
    """

    before: wire.RouteInfo
    after: wire.RouteInfo
    done: bool

    def to_json(self) -> dict[str, object]:
        """Return the change as plain JSON."""
        before, after = (part.model_dump(mode="json") for part in (self.before, self.after))
        return {"before": before, "after": after, "done": self.done}


def split_of(route: wire.RouteInfo) -> dict[str, int]:
    """Return a route's shares in basis points. Pure."""
    return {share.version: share.basis_points for share in route.shares}


def change_route(
    traffic: TrafficApi,
    model_id: str,
    changes: Mapping[str, int],
    *,
    reason: str | None = None,
    force: bool = False,
    dry_run: bool = False,
) -> RouteChange:
    """Give versions these shares in basis points; the others keep their proportions.

    Versions may be named by an alias or a digest, too.

    Raises:
        UsageError: the shares exceed 100%, leave a rest that nobody can take, or name a
            version twice.
        NotFound: there is no such version.
        ResourceConflict: the service refuses, or somebody changed the route meanwhile.
    """
    before = traffic.route(model_id)
    named = _by_name(traffic, before, changes)
    try:
        split = move(split_of(before), named)
    except InvalidSplit as error:
        raise UsageError(f"{str(error)[0].upper()}{str(error)[1:]}.") from error
    request = _request(split, before.shadow, reason=reason, force=force)
    after = traffic.set_route(model_id, request, expected=before.revision, dry_run=dry_run)
    return RouteChange(before, after, done=not dry_run)


def shadow_route(
    traffic: TrafficApi,
    model_id: str,
    version: str,
    share: int,
    *,
    reason: str | None = None,
    force: bool = False,
    dry_run: bool = False,
) -> RouteChange:
    """Send a copy of a share of the requests to a version; 0 ends it.

    Raises:
        UsageError: the model has no route whose requests could be copied.
        ResourceConflict: the service refuses, or somebody changed the route meanwhile.
    """
    before = traffic.route(model_id)
    if not before.shares:
        raise UsageError(
            f"Model {model_id} has no route yet, so there is nothing to copy.",
            way_out=f"Route it first: ai-model route --model-id {model_id} --traffic 100%"
            " --version VERSION",
        )
    shadow = wire.ShareRequest(version=version, basis_points=share) if share else None
    request = _request(split_of(before), shadow, reason=reason, force=force)
    after = traffic.set_route(model_id, request, expected=before.revision, dry_run=dry_run)
    return RouteChange(before, after, done=not dry_run)


def promote(
    traffic: TrafficApi,
    model_id: str,
    version: str,
    *,
    reason: str | None = None,
    force: bool = False,
    dry_run: bool = False,
) -> RouteChange:
    """Give a version all traffic."""
    return change_route(
        traffic, model_id, {version: WHOLE}, reason=reason, force=force, dry_run=dry_run
    )


def roll_back(
    traffic: TrafficApi,
    model_id: str,
    *,
    to_revision: int | None = None,
    reason: str | None = None,
    force: bool = False,
) -> RouteChange:
    """Go back to the split before, or to that of a revision."""
    before = traffic.route(model_id)
    request = wire.RollbackRequest(to_revision=to_revision, reason=reason, force=force)
    after = traffic.roll_back(model_id, request, expected=before.revision)
    return RouteChange(before, after, done=True)


def _by_name(
    traffic: TrafficApi, route: wire.RouteInfo, changes: Mapping[str, int]
) -> dict[str, int]:
    """Return changes by the names of the versions that are meant.

    Raises:
        NotFound: a version that is to get nothing does not exist.
        UsageError: two words mean one version.
    """
    named: dict[str, int] = {}
    for ref, share in changes.items():
        version = _name_of(traffic, route, ref, share)
        if version in named:
            raise UsageError(f"Version {version} is named twice.")
        named[version] = share
    return named


def _name_of(traffic: TrafficApi, route: wire.RouteInfo, ref: str, share: int) -> str:
    if ref in split_of(route):
        return ref
    try:
        return traffic.version_name(route.model_id, ref)
    except NotFound:
        if share == 0:
            raise
        return ref  # the service says it better: it knows also what is still being pushed


def _request(
    split: Mapping[str, int],
    shadow: wire.ShareInfo | wire.ShareRequest | None,
    *,
    reason: str | None,
    force: bool = False,
) -> wire.RouteRequest:
    kept = (
        wire.ShareRequest(version=shadow.version, basis_points=shadow.basis_points)
        if shadow
        else None
    )
    shares = [wire.ShareRequest(version=name, basis_points=part) for name, part in split.items()]
    return wire.RouteRequest(shares=shares, shadow=kept, reason=reason, force=force)
