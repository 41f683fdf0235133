"""The command: every scenario, a table of runs, bytes and hits; exit 1 when a canary was found."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from click import echo

from tests.reliability.canary.forms import FORMS, Leak, Scanner
from tests.reliability.canary.runs import (
    VALUES,
    Run,
    platform_leaks,
    repository_leaks,
    serving,
    workshop,
)
from tests.reliability.canary.scenarios import QUIET, SCENARIOS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.canary", description=__doc__)
    parser.add_argument("--only", metavar="TEXT", default="", help="scenarios whose name holds this")
    parser.add_argument("--verbose", action="store_true", help="tell each run")
    given = parser.parse_args()
    scanner = Scanner(VALUES)
    runs = scanned = hits = 0
    stored: list[tuple[str, Leak]] = []
    chosen = [name for name in SCENARIOS if given.only in name]
    for quiet in (True, False):
        with tempfile.TemporaryDirectory() as made, serving(folder := Path(made)) as platform:
            for name in chosen:
                if (name in QUIET) is quiet:
                    with workshop(platform, scanner) as shop:
                        SCENARIOS[name](shop)
                    hits += tell(name, shop.runs, verbose=given.verbose)
                    runs += len(shop.runs)
                    scanned += sum(run.scanned for run in shop.runs)
            if quiet:
                stored += platform_leaks(folder, scanner)
    stored += repository_leaks(scanner)
    for place, leak in stored:
        echo(f"{leak.value} as {leak.form} in {place}")
    hits += len(stored)
    echo(f"{runs} runs, {scanned / 1e6:.1f} MB in {len(FORMS)} forms of {len(VALUES)} values: {hits} hits")
    return 1 if hits else 0


def tell(name: str, runs: Sequence[Run], *, verbose: bool) -> int:
    """Print the scenario's line and its hits; return how many those are."""
    leaks = [(run, *leak) for run in runs for leak in run.leaks]
    echo(f"{len(runs):4} runs  {len(leaks):3} hits  {name}")
    for run in runs if verbose else ():
        echo(f"        exit {run.code}: {run.name}")
    for run, place, leak in leaks:
        echo(f"        {leak.value} as {leak.form} in {place} (byte {leak.at}) of `{run.name}`")
    return len(leaks)


if __name__ == "__main__":
    sys.exit(main())
