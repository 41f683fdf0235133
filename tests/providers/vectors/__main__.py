"""Make the vectors and judge them: `python -m tests.providers.vectors --seed 7 --count 2400`."""

import argparse
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.providers.vectors import vectors
from tests.providers.vectors.judge import Result, judge


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seed", type=int, default=7)
    options.add_argument("--count", type=int, default=2400)
    options.add_argument("--out", type=Path, help="write the vectors there too, one JSON object a line")
    given = options.parse_args()

    made = vectors(given.seed, given.count)
    if given.out:
        given.out.write_text("".join(f"{vector.as_json()}\n" for vector in made), encoding="utf-8")
    with TemporaryDirectory() as folder:
        results = judge(made, Path(folder))
    wrong = Counter(fault for result in results for fault in result.wrong())
    shown: set[str] = set()
    for result in results:
        if any(result.wrong()) and result.vector.case not in shown:  # one of each case is enough to read
            shown.add(result.vector.case)
            sys.stdout.write(_report(result))
    cases = len({vector.case for vector in made})
    verdicts = Counter(verdict for vector in made for verdict in vector.expected)
    sys.stdout.write(
        f"{len(made)} vectors of {cases} cases (seed {given.seed}), {verdicts.total()} deliveries: "
        f"{verdicts['accepted']} to accept, {verdicts['duplicate']} to take without effect, "
        f"{verdicts['refused']} to refuse\n"
        f"{wrong['false accept']} false accepts, {wrong['false reject']} false rejects, "
        f"{wrong['crash']} crashes\n"
    )
    return 1 if wrong else 0


def _report(result: Result) -> str:
    vector = result.vector
    return (
        f"{', '.join(result.wrong())}: {vector.case}\n"
        f"  expected {', '.join(vector.expected)}; got {', '.join(result.got)}\n"
        f"  because {vector.reason} ({vector.source})\n"
    )


if __name__ == "__main__":
    sys.exit(main())
