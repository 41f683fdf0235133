"""Drills that are killed: a sample of `python -m tests.reliability.drills`."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

pytestmark = pytest.mark.slow


def run(*options: str) -> dict[str, int]:
    """The figures of a run in which nothing was wrong."""
    command = [sys.executable, "-m", "tests.reliability.drills", *options, "--jobs", "2"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    figures = re.findall(r"^(.+?) {2,}(\d+)$", ran.stdout, re.MULTILINE)
    return {name.strip(): int(value) for name, value in figures}


def test_whatever_a_killed_drill_left_is_named_by_plans_and_deleted_by_the_next_drill() -> None:
    figures = run("--sample", "3")
    assert figures["cases"] == 3 + 3  # the troubles without a kill, too
    assert figures["cases never reached"] == 0
    assert figures["cases that left a scratch object"] > 0


def test_a_signal_after_the_last_step_begins_nothing_more() -> None:
    """Neither the delete nor the next drill: the executor that is told of it has no more to do."""
    assert run("--point", "lock:freed@1", "--signal", "TERM")["cases that left a scratch object"] == 1
