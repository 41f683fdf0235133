"""The planted bugs still fit the source, and a handful of them is caught for real.

All of them: `python -m tests.reliability.mutants`.
"""

import re

import pytest

from tests.reliability.mutants import MUTANTS
from tests.reliability.mutants_shared import SHARED
from tests.reliability.planting import ROOT, Change, Mutant, hunt_all, planted

SAMPLE = (
    "a 2xx without an id is taken as done",
    "a call is sent before its intent",
    "an old epoch may write",
    "a lost create is sent again without settling it",
    "an owed restart is forgotten",
    "the epoch does not rise with a lease",
    "a check asks the store nothing",
)
SEEDS = (47, *range(150))  # first the one that catches what hardly any other does
CONTRACT = "tests/state/contract.py"  # whose tests the classes of other files inherit


def test_there_are_enough_of_them_and_no_two_have_one_name() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 100
    assert len(SHARED) >= 40


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_its_text_stands_in_the_source_exactly_once(mutant: Mutant) -> None:
    for change in mutant.changes:
        source = (ROOT / "reconciler" / change.file).read_text(encoding="utf-8")
        changed = planted(source, [change])
        assert changed != source
        compile(changed, change.file, "exec")


@pytest.mark.parametrize("test", sorted({mutant.test for mutant in MUTANTS} - {""}))
def test_the_test_that_must_catch_it_is_there(test: str) -> None:
    file, *names = test.partition("[")[0].split("::")
    source = "".join((ROOT / each).read_text(encoding="utf-8") for each in (file, CONTRACT))
    assert all(re.search(rf"\b(class|def) {name}\(", source) for name in names)


def test_a_text_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ValueError, match="holds this text 0 times, not once"):
        planted("nothing\n", [Change("model.py", "something", "else")])
    with pytest.raises(ValueError, match="holds this text 2 times, not once"):
        planted("twice twice\n", [Change("model.py", "twice", "once")])


def test_a_handful_is_caught() -> None:
    chosen = [mutant for mutant in MUTANTS if mutant.name in SAMPLE]
    assert len(chosen) == len(SAMPLE)
    survived = [caught.name for caught in hunt_all(chosen, SEEDS, jobs=2) if not caught.by]
    assert survived == []
