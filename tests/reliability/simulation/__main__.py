"""`python -m tests.reliability.simulation --histories 10000 --jobs 2`: exit 1 on a violation."""

# ruff: noqa: T201 - what it prints is what it is for

import argparse
import sys
from collections.abc import Sequence
from typing import get_args

from tests.reliability.simulation import campaign
from tests.reliability.simulation.draw import draw
from tests.reliability.simulation.history import play
from tests.reliability.simulation.regression import write_case
from tests.reliability.simulation.scenario import State
from tests.reliability.simulation.tally import Tally

PROGRESS = 1000  # so many histories are played between two lines that say how far it is
MOST_CASES = 5  # shrinking one takes seconds, and more than a few hardly ever help
GROUPS = (
    "fault",
    "spell",
    "commit",
    "crash",
    "event",
    "settled",
    "outcome",
    "action",
    "decision",
    "edit",
    "machine",
    "store",
    "pause",
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.simulation")
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--trace", action="store_true", help="print every event of --seed's history")
    parser.add_argument("--check-hashes", type=int, metavar="N", help="play N seeds twice and compare")
    parser.add_argument("--state", choices=get_args(State), default="sqlite", help="where it is kept")
    options = parser.parse_args(arguments)
    state: State = options.state
    if options.trace:
        return _trace(options.seed, state)
    if options.check_hashes:
        return _check_hashes(range(options.seed, options.seed + options.check_hashes), options.jobs, state)
    seeds = range(options.seed, options.seed + options.histories)
    summary = campaign.run(seeds, options.jobs, state, _follow)
    _print(summary)
    for number, (seed, violation) in enumerate(summary.violations):
        print(f"seed {seed}: {violation.invariant}: {violation.message}")
        if number < MOST_CASES:
            print(f"  case: {write_case(draw(seed, state), violation.invariant)}")
    for missed in summary.missed:
        print(f"never reached: {missed}")
    return 1 if summary.violations or summary.missed else 0


def _follow(summary: campaign.Summary, played: campaign.Played) -> None:
    """A violation as soon as it is found, and how far a long run is."""
    if played.violation is not None:
        print(f"seed {played.seed} breaks {played.violation.invariant}", file=sys.stderr, flush=True)
    if summary.histories % PROGRESS == 0:
        said = f"{summary.histories} histories, {len(summary.violations)} violations, {summary.seconds:.0f} s"
        print(said, file=sys.stderr, flush=True)


def _trace(seed: int, state: State) -> int:
    report = play(draw(seed, state), keep_trace=True)
    print("\n".join(report.trace))
    print(f"hash {report.hash}")
    return 1 if report.violation else 0


def _check_hashes(seeds: Sequence[int], jobs: int, state: State) -> int:
    differing = campaign.differing_hashes(seeds, jobs, state)
    print(f"{len(seeds)} seeds played twice, {len(differing)} with different traces {differing[:10] or ''}")
    return 1 if differing else 0


def _print(summary: campaign.Summary) -> None:
    days = summary.simulated_s / 86400
    print(f"histories   {summary.histories}")
    print(f"events      {summary.events}")
    print(f"seconds     {summary.seconds:.1f} ({summary.cpu_s:.1f} of CPU), {days:.1f} simulated days")
    print(f"violations  {len(summary.violations)}")
    for group in GROUPS:
        _print_group(summary.tally, group)
    single = {name: count for name, count in summary.tally.items() if name.split()[0] not in GROUPS}
    for name, count in sorted(single.items()):
        print(f"{name:40} {count}")


def _print_group(tally: Tally, group: str) -> None:
    print(f"{group}:")
    for name, count in sorted(tally.items()):
        if name.split()[0] == group:
            print(f"  {name.partition(' ')[2]:38} {count}")


if __name__ == "__main__":
    sys.exit(main())
