"""Splits of traffic between the versions of a model.

A split maps a version to its share in basis points, hundredths of a percent.
Every share is at least 1 and together they are exactly 10,000; a version with
nothing is not in the split. Pure: what a version is and whether a server has
it loaded is not known here.
"""

import re
from collections.abc import Mapping

WHOLE = 10_000
"""Basis points of all traffic."""
LARGEST_JUMP = 5_000
"""Basis points that one version may gain in one change without being forced."""

_SHARE = re.compile(r"(\d{1,3})(?:\.(\d{1,9}))?\s?(%?)", re.ASCII)

Split = Mapping[str, int]


class InvalidShare(ValueError):
    """A share of traffic cannot be read, or is out of range."""


class InvalidSplit(ValueError):
    """Shares that cannot be a split."""


def parse_share(text: str) -> int:
    """Read a share as people type it, ``5%``, ``5`` or ``12.5%``, in basis points.

    A bare ``0.05`` may mean 5% or a twentieth of a percent, so it is refused;
    with its sign ``0.05%`` has one meaning only.

    Raises:
        InvalidShare: it is no number from 0% to 100%, finer than 0.01%, or ambiguous.
    """
    found = _SHARE.fullmatch(text.strip())
    if found is None:
        raise InvalidShare(f"traffic {text[:40]!r} is not a percentage such as 5% or 12.5%")
    whole, fraction, sign = int(found[1]), (found[2] or "").rstrip("0"), found[3]
    if found[2] is not None and whole <= 1 and not sign:
        raise InvalidShare(
            f"traffic {text!r} could be a fraction or a percentage: write it with its sign,"
            " such as 5%"
        )
    if len(fraction) > 2:
        raise InvalidShare(f"traffic {text!r} is finer than 0.01%, the smallest step there is")
    share = whole * 100 + int(fraction.ljust(2, "0"))
    if share > WHOLE:
        raise InvalidShare(f"traffic {text!r} is more than 100%")
    return share


def format_share(share: int) -> str:
    """Write basis points as a percentage: 500 is ``5%``, 1250 is ``12.5%``. Pure."""
    whole, rest = divmod(share, 100)
    return f"{whole}.{rest:02d}".rstrip("0").rstrip(".") + "%"


def format_split(split: Split) -> str:
    """Write a split in one line, the largest share first: ``v2.3 95%, v2.4 5%``. Pure."""
    largest_first = sorted(split.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{version} {format_share(share)}" for version, share in largest_first)


def check_split(split: Split) -> Split:
    """Return ``split`` if it is one.

    Raises:
        InvalidSplit: a share is below 1, or they do not sum to 10,000.
    """
    for version, share in split.items():
        if share < 1:
            raise InvalidSplit(f"{version} has {share} basis points: leave it out instead")
    if (total := sum(split.values())) != WHOLE:
        raise InvalidSplit(f"the shares sum to {format_share(total)}, not to 100%")
    return split


def stable_version(split: Split) -> str:
    """Return the version with the largest share; of equals the first in order of name."""
    return min(split, key=lambda version: (-split[version], version))


def apportion(weights: Mapping[str, int], total: int) -> dict[str, int]:
    """Divide ``total`` in proportion to ``weights``, by largest remainder.

    The result sums to ``total``, and each part is within one of its exact
    proportion. Of equal remainders the name that sorts first wins, so that
    the same question has the same answer everywhere. Parts of 0 are left out.

    Raises:
        InvalidSplit: a weight is negative, or none is positive while ``total`` is.
    """
    whole = sum(weights.values())
    if any(weight < 0 for weight in weights.values()) or (whole == 0 and total > 0):
        raise InvalidSplit("weights must not be negative, and at least one must be positive")
    parts = {name: total * weight // whole for name, weight in weights.items()} if whole else {}
    by_remainder = sorted(parts, key=lambda name: (-(total * weights[name] % whole), name))
    for name in by_remainder[: total - sum(parts.values())]:
        parts[name] += 1
    return {name: part for name, part in parts.items() if part}


def normalise(weights: Mapping[str, int]) -> dict[str, int]:
    """Turn weights of any scale into a split, by largest remainder.

    Raises:
        InvalidSplit: a weight is negative, or none is positive.
    """
    if not weights:
        raise InvalidSplit("a split needs at least one version")
    return apportion(weights, WHOLE)


def move(split: Split, changes: Mapping[str, int]) -> dict[str, int]:
    """Give the versions in ``changes`` these shares; the others keep their proportions.

    Args:
        split: now; empty where a model has no route yet.
        changes: new shares by version, each 0 to 10,000; 0 takes a version out.

    Raises:
        InvalidSplit: the changes exceed 100%, or leave a rest that no other version can take.
    """
    if any(not 0 <= share <= WHOLE for share in changes.values()):
        raise InvalidSplit("a share is from 0% to 100%")
    rest = WHOLE - sum(changes.values())
    if rest < 0:
        raise InvalidSplit(f"the shares given sum to {format_share(WHOLE - rest)}, over 100%")
    others = {version: share for version, share in split.items() if version not in changes}
    if rest and not others:
        raise InvalidSplit(
            f"no other version can take the remaining {format_share(rest)}: the shares given"
            " must sum to 100%"
        )
    kept = apportion(others, rest) if rest else {}
    given = {version: share for version, share in changes.items() if share}
    return {**kept, **given}


def largest_gain(before: Split, after: Split) -> tuple[str, int]:
    """Return the version that gains most between two splits, and its basis points."""
    gains = {version: share - before.get(version, 0) for version, share in after.items()}
    version = max(gains, key=lambda name: (gains[name], name))
    return version, gains[version]
