"""The benchmark's rows: that each of them can still be measured, and how they are judged."""

import os
import subprocess
import sys
from pathlib import Path

from bench.figures import chosen
from bench.journals import Journal
from bench.rows import groups
from bench.table import Row, render

ROOT = Path(__file__).parents[2]


def test_every_row_can_be_measured(tmp_path: Path) -> None:
    """In a process that has no threads, because it forks."""
    command = [sys.executable, "-m", "tests.bench.sample", str(tmp_path / "worlds")]
    ended = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert len(ended.stdout.splitlines()) == 1 + sum(len(group.figures) for group in groups())


def test_rows_are_chosen_by_their_name_and_by_the_time_they_take() -> None:
    every, quick, journals = chosen(groups()), chosen(groups(), quick=True), chosen(groups(), only="journal")
    assert len(every) == len(groups())
    assert len(quick) < len(every)
    assert [figure.ours for group in journals for figure in group.figures] == [
        Journal("plan", 100_000),
        Journal("apply", 100_000),
    ]


def test_no_two_rows_have_the_same_name() -> None:
    names = [figure.name for group in groups() for figure in group.figures]
    assert len(names) == len(set(names))


def test_a_ratio_is_that_of_pairs_and_not_of_medians() -> None:
    """A round that the machine was busy in was slow for both."""
    row = Row("plan", [1.0, 9.0, 2.0], "s", 0.5, [2.0, 20.0, 5.0], 1 / 3)
    assert row.ratio == 0.45
    assert row.met
    assert " ".join(render([row]).splitlines()[1].split()) == "plan 2 s 5 s 0.450 0.333 <= 0.5 x met"


def test_a_row_that_misses_its_target_says_so() -> None:
    assert "NOT MET" in render([Row("plan", [0.4], "s", 0.35)])
