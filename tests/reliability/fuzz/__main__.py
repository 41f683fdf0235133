"""The command: so many mutated manifests, and mutated and hostile answers. A table; exit 1 on any failure."""

import argparse
import sys

from click import echo

from tests.reliability.fuzz.answers import REQUESTS
from tests.reliability.fuzz.campaign import MOST_KEPT, Report, Subject, keep, run
from tests.reliability.fuzz.regressions import FOUND
from tests.reliability.fuzz.subjects import ANSWERS, MANIFESTS, RESPONSES

PER_SEED = 3  # mutated answers that one seed brings about, at least


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.fuzz", description=__doc__)
    parser.add_argument("--manifests", type=int, default=0, metavar="N", help="mutated inputs")
    parser.add_argument("--responses", type=int, default=0, metavar="N", help="mutated answers")
    parser.add_argument(
        "--answers", type=int, default=0, metavar="N", help="hostile answers on kept connections"
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the first one")
    given = parser.parse_args()
    failed = False
    if given.manifests:
        failed |= _tell(MANIFESTS, run(MANIFESTS, given.seed, given.manifests, given.jobs))
    if given.responses:
        failed |= _tell(RESPONSES, mutated_answers(given.seed, given.responses, given.jobs))
    if given.answers:
        failed |= _tell(ANSWERS, run(ANSWERS, given.seed, -(-given.answers // REQUESTS), given.jobs))
    return 1 if failed else 0


def mutated_answers(first: int, answers: int, jobs: int) -> Report:
    """So many answers that were mutated and delivered: as many seeds as that takes."""
    report = Report()
    while report.counts["mutated answers"] < answers and not report.failures:
        missing = answers - report.counts["mutated answers"]
        more = run(RESPONSES, first, max(1, missing // PER_SEED), jobs)
        first += missing // PER_SEED + 1
        elapsed_s = report.elapsed_s + more.elapsed_s
        report.add(more)
        report.elapsed_s = elapsed_s
    return report


def _tell(subject: Subject, report: Report) -> bool:
    """Print the table; True when anything failed."""
    echo(f"{subject.name}: {report.counts['inputs']} inputs in {report.elapsed_s:.0f} s")
    for name, count in sorted(report.counts.items()):
        echo(f"  {count:8}  {name}")
    seed, cpu_s = report.slowest
    echo(f"  {len(report.failures):8}  failures")
    echo(f"  slowest: seed {seed} with {cpu_s:.2f} s of CPU")
    for failure in report.failures[:MOST_KEPT]:
        echo(f"\nseed {failure.seed}:")
        for problem in failure.problems:
            echo(f"  {problem}")
    for path in keep(subject.name, report, FOUND):
        echo(f"kept as {path.relative_to(FOUND.parent.parent.parent.parent)}")
    return bool(report.failures)


if __name__ == "__main__":
    sys.exit(main())
