"""Rehearsals against what really happens: a sample of `python -m tests.reliability.rehearsals`."""

import pytest

from tests.reliability.rehearsals import compared, drawn


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_a_rehearsal_says_how_production_ends(seed: int) -> None:
    verdict = compared(seed)
    assert verdict.wrong == ()
    assert verdict.counts


def test_a_world_follows_from_its_seed_alone() -> None:
    assert drawn(3) == drawn(3) != drawn(4)
