"""What proofs have in common: a folder in memory, cases that run side by side, a table of the counts.

Nothing of the product is imported here: `mutants` plants bugs in it first.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

ROOT = Path(__file__).parent.parent.parent
_MEMORY = Path("/dev/shm")
# Where files cost no disk: every case writes and syncs some.
SHELF = _MEMORY if os.access(_MEMORY, os.W_OK) else Path(tempfile.gettempdir())
_MOST_SHOWN = 20


@dataclass
class Tally:
    """What a proof counted, and what was wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def end(self, **figures: str) -> int:
        """Print a table, with more `figures` after the counts; the exit code."""
        rows = [f"{what:32} {count:6}" for what, count in sorted(self.counts.items())]
        rows += [f"{what:32} {figure:>6}" for what, figure in figures.items()]
        rows += [f"{'violations':32} {len(self.violations):6}", *self.violations[:_MOST_SHOWN]]
        sys.stdout.write("\n".join(rows) + "\n")
        return 1 if self.violations else 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of one seed: what was `wrong`, and how often each thing was reached."""

    seed: int
    wrong: tuple[str, ...]
    counts: Mapping[str, int]


def side_by_side(work: Callable[[T], R], cases: Iterable[T], jobs: int) -> Iterator[R]:
    """What `work` gives for each case, in their order."""
    # Forked before the pool has threads; what a case starts, its worker forks itself.
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap(work, cases)
        pool.close()  # leaving the block would end the workers by a signal, which one of them may miss
        pool.join()


def judge_seeds(judge: Callable[[int], Verdict], seeds: range, jobs: int, proof: str) -> Tally:
    """Judge each seed. What was wrong stands below the command that repeats it."""
    tally = Tally()
    for verdict in side_by_side(judge, seeds, jobs):
        tally.counts.update(verdict.counts)
        repeats = f"python -m tests.reliability.{proof} --worlds 1 --seed {verdict.seed}"
        tally.violations += [f"{repeats}\n    {each}" for each in verdict.wrong]
    return tally


def run_proof(name: str, *options: str) -> "subprocess.CompletedProcess[str]":
    """A proof as its command, in a process of its own."""
    command = [sys.executable, "-m", f"tests.reliability.{name}", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
