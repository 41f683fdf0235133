"""Two revisions of the reconciler in turn over the same worlds, each in processes of its own."""

import io
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from bench.byte_code import compile_source
from bench.figures import Group
from bench.processes import CouldNotRun
from bench.stage import REPOSITORY, Program, Stage
from bench.table import align, paired

_HEADINGS = ("program", "CPU", "then", "ratio", "wall", "then", "ratio")


def compare(groups: Sequence[Group], ref: str, folder: Path, stack: ExitStack) -> str:
    """A table: what each program takes now, what at the revision `ref`, and the medians of their ratios."""
    then = _checked_out(ref, folder / "then")
    compile_source(then)
    stages = [Stage(folder / "now-worlds", stack), Stage(folder / "then-worlds", stack, then)]
    rows = [
        _compared(program, stages, group.rounds)
        for group in groups
        for program in group.programs
        if program.ours
    ]
    return align([_HEADINGS, *rows])


def _compared(program: Program, stages: Sequence[Stage], rounds: int) -> tuple[str, ...]:
    try:
        runs = [program.opened(stage) for stage in stages]
        pairs = [tuple(run() for run in runs) for _ in range(rounds)]
    except CouldNotRun as problem:  # costs its own row only: the others have taken minutes
        print(f"could not run: {problem}", file=sys.stderr)
        return (str(program), "could not run", *[""] * (len(_HEADINGS) - 2))
    return (
        str(program),
        *_cells([(now.cpu_s, then.cpu_s) for now, then in pairs]),
        *_cells([(now.wall_s, then.wall_s) for now, then in pairs]),
    )


def _cells(pairs: Sequence[tuple[float, float]]) -> tuple[str, str, str]:
    now, then = zip(*pairs, strict=True)
    return f"{median(now):.2f} s", f"{median(then):.2f} s", f"{paired(now, then):.3f}"


def _checked_out(ref: str, folder: Path) -> Path:
    """The reconciler as it was at `ref`, beside the benchmark as it is now."""
    archive = subprocess.run(
        ["git", "archive", ref, "reconciler"], cwd=REPOSITORY, capture_output=True, check=False
    )
    if archive.returncode:
        raise CouldNotRun(archive.stderr.decode().strip())
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(folder, filter="data")
    (folder / "bench").symlink_to(REPOSITORY / "bench")
    return folder
