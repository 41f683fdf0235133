"""Drills that are killed: a sample of `python -m tests.reliability.drills`."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

pytestmark = pytest.mark.slow


def test_whatever_a_killed_drill_left_is_named_by_plans_and_deleted_by_the_next_drill() -> None:
    command = [sys.executable, "-m", "tests.reliability.drills", "--sample", "3", "--jobs", "2"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    figures = {
        name.strip(): int(value) for name, value in re.findall(r"^(.+?) {2,}(\d+)$", ran.stdout, re.MULTILINE)
    }
    assert figures["cases"] == 3 + 3  # the troubles without a kill, too
    assert figures["cases never reached"] == 0
    assert figures["cases that left a scratch object"] > 0
