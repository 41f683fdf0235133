"""`python -m bench [--quick] [--only TEXT] [--compare REF]`: measure, then print one table. See README.md."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.byte_code import compile_all
from bench.compare import compare
from bench.figures import Group, chosen, measure
from bench.processes import CouldNotRun
from bench.rows import groups
from bench.stage import Stage
from bench.table import render


def main() -> int:
    """0 whatever the figures say: a benchmark is no test. 1 when something could not be run."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure, beside other programs.")
    parser.add_argument("--quick", action="store_true", help="what takes a minute or two")
    parser.add_argument("--only", default="", metavar="TEXT", help="only rows that have TEXT in their name")
    parser.add_argument("--compare", metavar="REF", help="measure ours beside ours at this git revision")
    wanted = parser.parse_args()
    found = chosen(groups(), quick=wanted.quick, only=wanted.only)
    try:
        print(compile_all())
        with tempfile.TemporaryDirectory(prefix="reconciler-bench-") as folder, ExitStack() as stack:
            print(_measured(found, wanted.compare, Path(folder), stack))
    except CouldNotRun as problem:
        print(f"could not run: {problem}", file=sys.stderr)
        return 1
    return 0


def _measured(groups: Sequence[Group], ref: str | None, folder: Path, stack: ExitStack) -> str:
    if ref is not None:
        return compare(groups, ref, folder, stack)
    stage = Stage(folder / "worlds", stack)
    return render([row for group in groups for row in measure(group, stage)])


if __name__ == "__main__":
    sys.exit(main())
