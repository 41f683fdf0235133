"""Drills that are killed: a sample of `python -m tests.reliability.drills`."""

import re

import pytest

from tests.reliability.proof import run_proof

pytestmark = pytest.mark.slow


def test_whatever_a_killed_drill_left_is_named_by_plans_and_deleted_by_the_next_drill() -> None:
    ran = run_proof("drills", "--sample", "3", "--jobs", "2")
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    figures = {
        name.strip(): int(value) for name, value in re.findall(r"^(.+?) {2,}(\d+)$", ran.stdout, re.MULTILINE)
    }
    assert figures["cases"] == 3 + 3  # the troubles without a kill, too
    assert figures["cases never reached"] == 0
    assert figures["cases that left a scratch object"] > 0
