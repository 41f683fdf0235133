"""Samples of `store_faults`, and that its checks find what they are there for."""

import pytest

from reconciler.state import spool_file
from reconciler.state.sqlite import checks
from tests.reliability.store_faults import run


def test_no_acknowledged_outcome_is_lost_and_no_flipped_bit_goes_unseen() -> None:
    tally = run(torn_count=120, full_count=24, flip_count=40, seed=7)
    assert tally.violations == []
    assert tally.counts["full: spooled"] > 0
    assert len([what for what in tally.counts if what.startswith("flips: ")]) == 8


def test_a_store_that_keeps_nothing_aside_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_file, "keep", lambda place, kept: place)
    assert any("lost" in violation for violation in run(60, 0, 0, seed=7).violations)


def test_a_store_that_skips_its_check_values_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "verify_tables", lambda *arguments: None)
    assert any("goes unseen" in violation for violation in run(0, 0, 40, seed=7).violations)
