"""Which part of the hash ring each version serves, so that cohorts only grow.

The ring has 10,000 basis points. When a split changes, a version that gains
keeps every basis point it had, and one that loses gets none that it had not:
nobody is moved who need not be. Pure.
"""

from itertools import groupby

from ai_model_format.traffic import Split, check_split, stable_version
from registry_api.xds.state import Run

MAX_RUNS = 256
"""Runs after which the ring is laid out anew, so that routes stay small."""


def reassign(cohorts: tuple[Run, ...], split: Split) -> tuple[Run, ...]:
    """Return the ring of ``split`` that differs least from ``cohorts``.

    Raises:
        InvalidSplit: ``split`` is not one.
    """
    check_split(split)
    ring = [run.version for run in cohorts for _ in range(run.width)]
    if not ring:
        return _laid_out(split)
    moved = _runs(_fill(_free(ring, split), split))
    return moved if len(moved) <= MAX_RUNS else _laid_out(split)


def _laid_out(split: Split) -> tuple[Run, ...]:
    """Lay out a ring in order of name, the stable version last."""
    stable = stable_version(split)
    order = sorted(split, key=lambda version: (version == stable, version))
    return tuple(Run(version, split[version]) for version in order)


def _free(ring: list[str], split: Split) -> list[str | None]:
    """Take from each version what it has too much, from the start of the ring on."""
    surplus = {version: ring.count(version) - split.get(version, 0) for version in set(ring)}
    freed: list[str | None] = []
    for version in ring:
        taken = surplus[version] > 0
        surplus[version] -= taken
        freed.append(None if taken else version)
    return freed


def _fill(ring: list[str | None], split: Split) -> list[str]:
    """Give what is free to the versions that have too little, in order of name."""
    wanting = iter(
        [version for version in sorted(split) for _ in range(split[version] - ring.count(version))]
    )
    return [next(wanting) if version is None else version for version in ring]


def _runs(ring: list[str]) -> tuple[Run, ...]:
    return tuple(Run(version, len(list(members))) for version, members in groupby(ring))
