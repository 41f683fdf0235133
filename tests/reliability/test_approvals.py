"""Forged approvals: a sample of `python -m tests.reliability.approvals`, and whether that finds anything."""

from typing import Any

import pytest

from reconciler.pipeline import judge_approvals
from tests.reliability.approvals import FATAL, HARMLESS, play

ONCE_EACH = 27  # vectors


def test_what_was_changed_does_not_run_and_what_was_not_does() -> None:
    tally = play(ONCE_EACH, 1)
    assert tally.violations == []
    assert set(tally.vectors) >= {change.__name__ for change in (*FATAL, *HARMLESS)}


def test_a_product_that_takes_any_approval_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(*approval: Any) -> str:
        return ""

    monkeypatch.setattr(judge_approvals, "why_dead", taken)
    assert len(play(15, 1).violations) >= 5
