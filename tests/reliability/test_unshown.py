"""What a rehearsal takes for granted: a sample of `python -m tests.reliability.unshown`."""

import pytest

from reconciler.rehearsal import twin
from reconciler.sandbox.switches import SWITCHES
from tests.reliability.unshown import UNNAMED, compared, covered, planted, settings

SEEDS = (*range(8), 11)  # the last one refuses to create a cluster


@pytest.mark.slow
def test_each_miss_rests_on_what_was_named() -> None:
    verdicts = [compared(seed) for seed in SEEDS]
    assert [each for verdict in verdicts for each in verdict.wrong] == []
    assert sum(verdict.counts.get("misses", 0) for verdict in verdicts) > 0


@pytest.mark.slow
def test_what_is_not_named_turns_the_proof_red(monkeypatch: pytest.MonkeyPatch) -> None:
    fewer = {name: says for name, says in twin.ASSUMED.items() if name != "placement"}
    monkeypatch.setattr(twin, "ASSUMED", fewer)
    assert any(each.startswith(UNNAMED) for seed in SEEDS for each in compared(seed).wrong)


@pytest.mark.slow
def test_planted_divergences_are_differences() -> None:
    told = [found for seed in SEEDS for found in planted(seed).items()]
    assert [name for name, differences in told if not differences] == []
    assert len(told) > len(SEEDS) / 2


def test_what_is_assumed_are_switches() -> None:
    known = {switch for name in twin.ASSUMED for switch in covered(name)}
    assert known <= set(SWITCHES)
    assert settings(3) == settings(3) != settings(4)
