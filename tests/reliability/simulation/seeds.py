"""The seeds that change with each commit, beside the fixed ones.

`python -m tests.reliability.simulation.seeds` prints how to play them.
"""

# ruff: noqa: T201 - what it prints is what it is for

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

CHANGING = 100
ELSEWHERE = 7_400_000  # a tree without git, and without a variable that names its commit
VARIABLES = ("GITHUB_SHA", "CI_COMMIT_SHA")  # a shallow or exported checkout may have nothing else


def of_commit(commit: str) -> range:
    """The seeds of the histories that this commit plays; "" where nobody knows the commit."""
    first = int(commit[:8], 16) if commit else ELSEWHERE
    return range(first, first + CHANGING)


def commit_here(variables: Mapping[str, str], folder: Path) -> str:
    """The commit that is tested, in full; "" where neither git nor CI's variables tell."""
    command = ["git", "-C", str(folder), "rev-parse", "--verify", "--quiet", "HEAD"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout.strip()
    except OSError:
        told = ""
    known = [each for each in (told, *(variables.get(name, "") for name in VARIABLES)) if _is_commit(each)]
    return known[0] if known else ""


def _is_commit(text: str) -> bool:
    return len(text) >= 8 and all(each in "0123456789abcdef" for each in text)


def changing() -> range:
    return of_commit(commit_here(os.environ, Path(__file__).parent))


if __name__ == "__main__":
    seeds = changing()
    print(
        f"this commit's histories: python -m tests.reliability.simulation --seed {seeds[0]} "
        f"--histories {len(seeds)}"
    )
