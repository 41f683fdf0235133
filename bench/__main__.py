"""`python -m bench [--quick]`: measure everything, then print one table. See README.md."""

import argparse
import sys
import tempfile
from pathlib import Path

from bench import figures
from bench.processes import CouldNotRun
from bench.table import Row, render


def main() -> int:
    """0 whatever the figures say: a benchmark is no test. 1 when something could not be run."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure beside Terraform.")
    parser.add_argument("--quick", action="store_true", help="only the sizes of 1,000, each once")
    quick = parser.parse_args().quick
    try:
        with tempfile.TemporaryDirectory(prefix="reconciler-bench-") as folder:
            rows = _measure(Path(folder), quick=quick)
    except CouldNotRun as problem:
        print(f"could not run: {problem}", file=sys.stderr)
        return 1
    print(render(rows))
    return 0


def _measure(folder: Path, *, quick: bool) -> list[Row]:
    rows = figures.starting(folder, 5, most_help_s=0.15, most_validate_s=0.35)
    rows += figures.planning(folder, 1_000, 3 if quick else 5, most_time=0.4, most_memory=None)
    rows += figures.creating(folder, 1_000, 1 if quick else 2, most=0.5)
    rows += figures.importing(folder, 2_000, 1 if quick else 3, most_s=3)
    rows += figures.reporting(1_000 if quick else 10_000, 1 if quick else 3, most_s=1.5, most_mib=150)
    if not quick:
        rows += figures.planning(folder, 10_000, 3, most_time=0.10, most_memory=0.2)
        rows += figures.growth(folder, 10_000, 100_000, 2, most=1.5)
    return rows


if __name__ == "__main__":
    sys.exit(main())
