"""Samples of `rivals`, and that its checks find a lease that excludes nobody."""

import fcntl
from pathlib import Path

import pytest

from reconciler.state.log.leases import Leases
from reconciler.state.log.open_state import Opened
from tests.providers.postgres import running_postgres
from tests.reliability.rivals import Tally, pauses, races, run
from tests.reliability.shared import NEW_SERVER, File, PostgresServer


@pytest.mark.parametrize("workers", [2, 8])
def test_one_of_many_rivals_writes_and_the_others_are_told_its_name(workers: int, tmp_path: Path) -> None:
    tally = Tally()
    races(20, workers, File(tmp_path / "state.db"), tally)
    assert [each for each in tally.violations if " took " not in each] == []
    assert tally.counts["holders killed"] == 2


def test_a_paused_holder_neither_writes_nor_sends_after_a_take_over(tmp_path: Path) -> None:
    tally = Tally()
    pauses(15, 7, File(tmp_path / "state.db"), tmp_path / "log", tally)
    assert tally.violations == []
    assert tally.counts["pauses with a take-over"] == 15


def test_rivals_for_a_scope_in_postgresql_write_one_after_another() -> None:
    tally = run(20, 15, seed=7, state=NEW_SERVER)
    assert [each for each in tally.violations if " took " not in each] == []
    assert tally.counts["holders killed"] == 4
    assert tally.counts["pauses with a take-over"] == 15


def test_locks_that_exclude_nobody_are_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "lockf", lambda descriptor, how, length, number: None)
    tally = Tally()
    try:
        races(3, 2, File(tmp_path / "state.db"), tally)
    except EOFError:
        return  # a racer fell over what another did at the same time: found out as well
    assert any("winners, " in violation for violation in tally.violations)


def test_a_store_that_ignores_epochs_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Leases, "refresh", lambda ours, leases: None)
    monkeypatch.setattr(Opened, "_require", lambda opened, lease, seen: None)
    tally = Tally()
    pauses(1, 7, File(tmp_path / "state.db"), tmp_path / "log", tally)
    assert any("after the take-over" in violation for violation in tally.violations)


def test_a_database_that_is_not_asked_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Leases, "refresh", lambda ours, leases: None)
    tally = Tally()
    with running_postgres() as server:
        for seed in range(20):  # only a pause between a commit and the next check shows it
            pauses(10, seed, PostgresServer(server.url).new(), tmp_path / "log", tally)
            if any("its check began after the take-over" in violation for violation in tally.violations):
                return
    pytest.fail("200 take-overs did not show it")
