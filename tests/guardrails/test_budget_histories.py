"""No sequence of runs, however cut, does more than a budget allows in any window."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.approvals import spent
from reconciler.state.store import Event, JournalEntry
from tests.reliability.budgets import Place, play
from tests.reliability.proof import run_proof
from tests.reliability.shared import NEW_MOTO, NEW_SERVER, File


def violations(seeds: Iterable[int], root: Path, place: Callable[[int], Place | None]) -> Iterator[str]:
    for seed in seeds:
        for violation in play(seed, root, place=place(seed)).violations():
            yield f"seed {seed}: {violation}"


@pytest.mark.slow
def test_no_random_history_does_more_than_its_budget(tmp_path: Path) -> None:
    assert [*violations(range(6), tmp_path, lambda seed: None)] == []


@pytest.mark.slow
def test_no_two_runners_do_more_over_one_file(tmp_path: Path) -> None:
    assert [*violations(range(3), tmp_path, lambda seed: File(tmp_path / f"{seed}" / "state.db"))] == []


@pytest.mark.slow
@pytest.mark.parametrize("state", [NEW_SERVER, NEW_MOTO])
def test_no_two_runners_do_more_over_a_shared_state(state: str) -> None:
    """In a process of its own: what an object store's driver starts survives no fork of another test."""
    ended = run_proof("budgets", "--histories", "1", "--state", state)
    assert ended.returncode == 0, ended.stdout + ended.stderr


Journal = Iterable[tuple[str, JournalEntry]]


def without_unknown_outcomes(patch: pytest.MonkeyPatch) -> None:
    past_uses = spent.past_uses

    def planted(journal: Journal, late: timedelta) -> Any:
        journal = list(journal)
        done = {(entry.run, entry.step) for _, entry in journal if entry.event is Event.DONE}
        return [use for use in past_uses(journal, late) if (use.run, use.step) in done]

    patch.setattr(spent, "past_uses", planted)


def without_the_reservations_of_others(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(spent.Spent, "uses", lambda found, held: found.past)


def by_the_start_of_the_run(patch: pytest.MonkeyPatch) -> None:
    past_uses = spent.past_uses

    def planted(journal: Journal, late: timedelta) -> Any:
        began: dict[str, datetime] = {}
        for _, entry in (journal := list(journal)):
            began.setdefault(entry.run, entry.at)
        return [replace(use, at=began[use.run]) for use in past_uses(journal, late)]

    patch.setattr(spent, "past_uses", planted)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "seeds"),
    [
        (without_unknown_outcomes, (0, 14)),
        (by_the_start_of_the_run, (48,)),
        (without_the_reservations_of_others, (0, 3)),
    ],
)
def test_a_planted_mistake_is_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    seeds: Iterable[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    assert [*violations(seeds, tmp_path, lambda seed: None)] != []
