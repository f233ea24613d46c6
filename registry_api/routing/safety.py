"""What a route is held to before it may change: nothing here moves traffic."""

from collections.abc import Mapping, Sequence

from sqlalchemy.orm import Session

from ai_model_format.traffic import (
    LARGEST_JUMP,
    InvalidSplit,
    check_split,
    largest_gain,
    stable_version,
)
from registry_api.db.tables import ModelRow, VersionRow
from registry_api.routing import queries
from registry_api.routing.errors import (
    InvalidRoute,
    JumpTooLarge,
    RouteChanged,
    VersionIsYanked,
    VersionNotLoaded,
)
from registry_api.routing.tables import RouteRevisionRow


def check_revision(current: RouteRevisionRow | None, expected: int | None) -> None:
    """Insist that the route is what the caller saw.

    Raises:
        RouteChanged: it is at another revision.
    """
    revision = current.revision if current else 0
    if expected is not None and expected != revision:
        raise RouteChanged(expected, revision)


def check_shares(split: Mapping[str, int]) -> None:
    """Insist that shares sum to 100%.

    Raises:
        InvalidRoute: they do not.
    """
    try:
        check_split(split)
    except InvalidSplit as error:
        raise InvalidRoute(str(error)) from error


def check_safe(
    session: Session,
    model: ModelRow,
    versions: Sequence[VersionRow],
    before: Mapping[str, int],
    after: Mapping[str, int],
) -> None:
    """Refuse what would fail requests, or puts too much on a version at once.

    A version that loses traffic, or keeps it, is let be: getting away from it
    must always work.

    Raises:
        VersionIsYanked: a version that gains is.
        VersionNotLoaded: nobody can answer for one that gains.
        JumpTooLarge: one gains more than half of all traffic.
    """
    gaining = [row for row in versions if after[row.name] > before.get(row.name, 0)]
    check_yanked(gaining)
    check_loaded(session, model, [row.name for row in gaining])
    check_jump(before, after)


def check_jump(before: Mapping[str, int], after: Mapping[str, int]) -> None:
    """Refuse a change that puts too much on a version at once.

    Raises:
        JumpTooLarge: one gains more than half of all traffic; not in a model's first route.
    """
    if not before:
        return
    version, gain = largest_gain(before, after)
    if gain > LARGEST_JUMP:
        raise JumpTooLarge(version, before.get(version, 0), after[version])


def check_yanked(versions: Sequence[VersionRow]) -> None:
    """Insist that no version is marked as not to be used.

    Raises:
        VersionIsYanked: one is.
    """
    for version in versions:
        if version.yanked_at is not None:
            raise VersionIsYanked(version.name, version.yank_reason)


def check_answered(session: Session, model: ModelRow, split: Mapping[str, int]) -> None:
    """Insist that somebody answers: the share of a version without servers goes to another.

    Raises:
        VersionNotLoaded: no live server has any version of the split loaded.
    """
    if not split.keys() & queries.live_counts(session, model.id).keys():
        raise VersionNotLoaded(model.name, stable_version(split))


def check_loaded(session: Session, model: ModelRow, versions: Sequence[str]) -> None:
    """Insist that each version is loaded by a live server, with the right digest.

    Raises:
        VersionNotLoaded: one is not.
    """
    live = queries.live_counts(session, model.id)
    for version in versions:
        if not live.get(version):
            raise VersionNotLoaded(model.name, version)
