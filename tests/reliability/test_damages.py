"""Planted damages: a sample of `python -m tests.reliability.damages`, on real servers."""

import pytest

from tests.providers.postgres import installed_postgres
from tests.reliability.damages import drill_healthy, find_damages

pytestmark = pytest.mark.slow

SAMPLE = ("an older backup restored", "role without rights")


@pytest.fixture(autouse=True)
def _installed() -> None:
    installed_postgres()


def test_damages_are_found() -> None:
    tally = find_damages(SAMPLE)
    assert tally.violations == []
    assert tally.counts["damages"] == len(SAMPLE)


def test_healthy_restores_pass() -> None:
    tally = drill_healthy(2, seed=7)
    assert tally.violations == []
    assert tally.counts["healthy"] == 2
