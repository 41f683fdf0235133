"""Proposed sizes against what is needed: a sample of `python -m tests.reliability.fills`."""

from collections.abc import Callable

import pytest

from reconciler.project import trends
from tests.reliability.fills import drawn, judged

SEEDS = (*range(240), 630, 696)  # the last two are wrong for who looks too far ahead


def test_no_proposal_is_more_than_a_step_away_from_what_is_enough() -> None:
    played = [(drawn(seed), *judged(drawn(seed))) for seed in SEEDS]
    assert [(history.shape, what) for history, _, wrong in played for what in wrong] == []
    proposed = {history.shape for history, outlook, _ in played if outlook.proposed is not None}
    assert {"line", "steps", "one cleanup"} <= proposed
    assert proposed.isdisjoint({"saw", "still"})


def _forgets_cleanups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trends, "_FALL", 100.0)
    monkeypatch.setattr(trends, "_FULLER", -100.0)


def _sees_no_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trends, "min", max, raising=False)


def _looks_too_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trends, "_AHEAD", 20)


def _is_too_steep(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = trends.pace
    monkeypatch.setattr(trends, "pace", lambda points: 3 * (honest(points) or 0))


PLANTS = (_forgets_cleanups, _sees_no_steps, _looks_too_far, _is_too_steep)


@pytest.mark.parametrize("plant", PLANTS, ids=[each.__name__ for each in PLANTS])
def test_a_planted_bug_turns_the_proof_red(
    monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    plant(monkeypatch)
    assert any(judged(drawn(seed))[1] for seed in SEEDS)
