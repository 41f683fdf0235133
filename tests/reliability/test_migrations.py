"""A sample of `migrations`, and that it finds a move which marks nothing."""

import re

from tests.reliability.migrations import PAIRS
from tests.reliability.proof import run_proof


def test_a_move_that_is_killed_leaves_one_side_that_takes_changes_and_ends_when_it_is_run_again() -> None:
    ran = run_proof("migrations", "--sample", "2")
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    sides = re.findall(r"(\d+) leave the old side, +(\d+) the new one; 0 violations", ran.stdout)
    assert len(sides) == len(PAIRS)
    assert all(any(int(each[side]) for each in sides) for side in (0, 1))


def test_a_move_that_marks_nothing_is_found_out() -> None:
    ran = run_proof("migrations", "--sample", "1", "--from", "sqlite:", "--to", "sqlite:", "--defect")
    assert ran.returncode == 1
    assert "old and new side take changes: [True, True]" in ran.stdout, f"{ran.stdout}\n{ran.stderr}"
