"""Laws of the hash ring: it says what the split says, and nobody moves who need not."""

from hypothesis import given
from hypothesis import strategies as st

from ai_model_format.traffic import WHOLE, normalise
from registry_api.xds.cohorts import MAX_RUNS, reassign
from registry_api.xds.state import Run, split_of

SPLITS = st.dictionaries(
    st.sampled_from(["v1", "v2", "v3", "v4"]), st.integers(1, 1000), min_size=1
).map(normalise)


def expand(cohorts: tuple[Run, ...]) -> list[str]:
    return [run.version for run in cohorts for _ in range(run.width)]


@given(st.lists(SPLITS, min_size=1, max_size=8))
def test_the_ring_always_says_what_the_split_says(splits: list[dict[str, int]]) -> None:
    cohorts: tuple[Run, ...] = ()
    for split in splits:
        cohorts = reassign(cohorts, split)
        assert split_of(cohorts) == split
        assert len(expand(cohorts)) == WHOLE


@given(SPLITS, SPLITS)
def test_who_gains_keeps_everybody_and_who_loses_gets_nobody(
    before: dict[str, int], after: dict[str, int]
) -> None:
    ring = reassign((), before)
    pairs = list(zip(expand(ring), expand(reassign(ring, after)), strict=True))
    for old, new in pairs:
        if after.get(old, 0) >= before[old]:
            assert new == old
    moved = sum(old != new for old, new in pairs)
    assert moved == sum(max(before[v] - after.get(v, 0), 0) for v in before), "no more than needed"


def test_the_same_split_is_the_same_ring() -> None:
    ring = reassign((), {"v1": 9500, "v2": 500})
    assert ring == (Run("v2", 500), Run("v1", 9500))
    assert reassign(ring, {"v1": 9500, "v2": 500}) == ring


def test_a_ring_that_got_too_fine_is_laid_out_anew() -> None:
    fine = tuple(Run(f"v{number % 2}", 1) for number in range(WHOLE))
    assert len(fine) > MAX_RUNS
    assert reassign(fine, {"v0": 5000, "v1": 5000}) == (Run("v1", 5000), Run("v0", 5000))
