"""Forged approvals: a sample of `python -m tests.reliability.approvals`, and whether that finds anything."""

from typing import Any

import pytest

from reconciler.approvals import judging
from reconciler.core.steps import Plan
from tests.reliability import approvals
from tests.reliability.approvals import FATAL, HARMLESS, play

ONCE_EACH = 33  # vectors


def test_what_was_changed_does_not_run_and_what_was_not_does() -> None:
    tally = play(ONCE_EACH, 1)
    assert tally.violations == []
    assert set(tally.counts) >= {change.__name__ for change in (*FATAL, *HARMLESS)}


def test_a_product_that_takes_any_approval_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(*approval: Any) -> str:
        return ""

    monkeypatch.setattr(judging, "why_dead", taken)
    assert len(play(15, 1).violations) >= 5


def test_a_product_that_runs_its_own_plan_whatever_the_file_says_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def as_it_is(reviewed: Plan, now: Plan, *rest: Any) -> Plan:
        return now

    monkeypatch.setattr(approvals, "as_reviewed", as_it_is)
    assert play(2, 1).violations == ["vector 1 (another_plan): accepted"]
