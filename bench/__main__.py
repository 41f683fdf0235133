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
from bench.table import Row, render


def main() -> int:
    """0 whatever the figures say: a benchmark is no test. 1 when something could not be run."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure, beside other programs.")
    parser.add_argument("--quick", action="store_true", help="what takes a minute or two")
    parser.add_argument("--only", default="", metavar="TEXT", help="only rows that have TEXT in their name")
    parser.add_argument("--compare", metavar="REF", help="measure ours beside ours at this git revision")
    wanted = parser.parse_args()
    found = chosen(groups(), quick=wanted.quick, only=wanted.only)
    if not found:
        parser.error(f"no row has {wanted.only!r} in its name")
    try:
        print(compile_all())
        with tempfile.TemporaryDirectory(prefix="reconciler-bench-") as folder, ExitStack() as stack:
            if wanted.compare is not None:
                print(compare(found, wanted.compare, Path(folder), stack))
                return 0
            return _measure(found, Stage(Path(folder) / "worlds", stack))
    except CouldNotRun as problem:
        print(f"could not run: {problem}", file=sys.stderr)
        return 1


def _measure(groups: Sequence[Group], stage: Stage) -> int:
    """What cannot be run costs its own rows only: the others have taken minutes."""
    rows, problems = list[Row](), list[CouldNotRun]()
    for group in groups:
        try:
            rows += measure(group, stage)
        except CouldNotRun as problem:
            problems.append(problem)
    print(render(rows))
    for told in problems:
        print(f"could not run: {told}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
