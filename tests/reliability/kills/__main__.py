"""`python -m tests.reliability.kills`: list the points, strike them, print what was wrong and a table."""

import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from tests.forking import import_everything
from tests.reliability.kills.case import SIGNALS, Case, Verdict, judged, killed, points, tried
from tests.reliability.kills.planted import DEFECTS
from tests.reliability.kills.sample import every_case, sampled
from tests.reliability.kills.scenario import Template, prepared
from tests.reliability.kills.verdict import KINDS
from tests.reliability.proof import side_by_side
from tests.reliability.shared import SERVERS, server

# At this point calls of all kinds are under way: volumes, snapshots, an update, and two clusters.
FIRST_KILL = "POST PostgresCluster/orders-copy#restore:effect@1"

_PROGRESS_EVERY = 100  # cases, about a minute
# A loaded machine polls less often, so that some last polls are never reached: this share of the cases, or
# in a small sample this many.
_FEW, _FEW_CASES = 0.05, 2


@click.command()
@click.option("--all", "everything", is_flag=True, help="Every point with every signal.")
@click.option(
    "--sample", type=click.IntRange(1), help="So many cases: every class of boundary, every signal."
)
@click.option("--seed", default=1, show_default=True, help="Of the sample.")
@click.option("--point", "point", help="This point alone, as --list names it.")
@click.option("--signal", "signal_name", type=click.Choice(list(SIGNALS)), help="Only this signal.")
@click.option("--list", "listing", is_flag=True, help="Print the points; alone, run nothing.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="Cases side by side.")
@click.option(
    "--second", is_flag=True, help=f"Strike the run that follows a kill at `{FIRST_KILL}`, which settles."
)
@click.option("--extended", is_flag=True, help="On a platform with the endpoints that are not documented.")
@click.option(
    "--state",
    "wanted",
    default="",
    metavar="URL",
    help="Each case has its state on this server: one of PostgreSQL, by its superuser, or an endpoint of S3. "
    f"{', '.join(SERVERS)}: one that is started for this.",
)
@click.option("--defects", is_flag=True, help="Plant defects, and see that each is found.")
def command(
    everything: bool,
    sample: int | None,
    seed: int,
    point: str | None,
    signal_name: str | None,
    listing: bool,
    jobs: int,
    second: bool,
    extended: bool,
    wanted: str,
    defects: bool,
) -> None:
    """Strike real applies at their boundaries, run again, and judge. Exits with 1 when anything is wrong."""
    chosen = everything + defects + (sample is not None) + (point is not None)
    if chosen > 1 or not chosen + listing:
        raise click.UsageError("give --list, or exactly one of --all, --sample, --point and --defects")
    if defects and wanted:
        raise click.UsageError("--defects are planted in the program that keeps its state in a file")
    # Ended from outside, it ends the processes of its cases too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    import_everything()
    started = time.monotonic()
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kills-")))
        template = replace(prepared(root / "template", extended=extended), server=server(wanted, stack))
        if defects:
            sys.exit(_defects_found(template, root, jobs))
        if second:
            template = killed(FIRST_KILL, template, root)
        reached = points(template, root / "points")
        if listing:
            click.echo("\n".join(reached))
        if not chosen:
            return
        every = every_case([point] if point is not None else reached)
        cases = [case for case in every if signal_name in (None, case.signal)]
        if sample is not None:
            cases = sampled(cases, sample, seed)
        verdicts = []
        for verdict in _verdicts(cases, template, root, jobs):
            verdicts.append(verdict)
            options = " --second" * second + " --extended" * extended
            _tell(verdict, f"{options} --state {wanted}" if wanted else options)
            if len(verdicts) % _PROGRESS_EVERY == 0:
                click.echo(f"{len(verdicts)} of {len(cases)} cases", err=True)
    click.echo(_table(len(reached), verdicts, time.monotonic() - started))
    missed = sum(not verdict.struck for verdict in verdicts)
    wrong = any(verdict.findings for verdict in verdicts)
    sys.exit(1 if wrong or missed > max(_FEW_CASES, _FEW * len(verdicts)) else 0)


def _verdicts(cases: Sequence[Case], template: Template, root: Path, jobs: int) -> Iterator[Verdict]:
    return side_by_side(partial(_one, template, root), enumerate(cases), jobs)


def _one(template: Template, root: Path, numbered: tuple[int, Case]) -> Verdict:
    number, case = numbered
    return tried(case, template, root / f"case-{number}", judged)


def _defects_found(template: Template, root: Path, jobs: int) -> int:
    """Print what showed each planted defect; 1 when one was not shown as it should be."""
    cases = [Case(defect.point, defect.signal, name) for name, defect in DEFECTS.items()]
    missed = 0
    for verdict in _verdicts(cases, template, root, jobs):
        name = verdict.case.planted
        shown = [each for each in verdict.findings if each.kind == DEFECTS[name].shown]
        told = str(shown[0]).splitlines()[0] if shown else f"NOT FOUND, only {verdict.findings}"
        click.echo(f"{name:<28}{told}")
        missed += not shown
    return 1 if missed else 0


def _tell(verdict: Verdict, options: str) -> None:
    """What was wrong, below the command that repeats it."""
    if verdict.struck and not verdict.findings:
        return
    lines = [f"python -m tests.reliability.kills{options} {verdict.case}"]
    lines += [f"    {finding}" for finding in verdict.findings]
    click.echo("\n".join(lines if verdict.struck else [*lines, "    was never reached"]))


def _table(reached: int, verdicts: Sequence[Verdict], seconds: float) -> str:
    signalled = [verdict.ended_after_s for verdict in verdicts if verdict.case.signal != "KILL"]
    wrong = Counter(finding.kind for verdict in verdicts for finding in verdict.findings)
    rows = [
        ("points of one apply", reached),
        ("points struck", len({verdict.case.point for verdict in verdicts if verdict.struck})),
        ("cases", len(verdicts)),
        *((f"  by {name}", sum(each.case.signal == name for each in verdicts)) for name in SIGNALS),
        ("cases never reached", sum(not verdict.struck for verdict in verdicts)),
        ("runs after the struck one", sum(verdict.runs for verdict in verdicts)),
        ("decisions by a person", sum(verdict.decisions for verdict in verdicts)),
        *((f"{kind}s" if kind != "not converged" else kind, wrong[kind]) for kind in KINDS),
        ("longest end after TERM or INT, ms", round(max(signalled, default=0) * 1000)),
        ("seconds", round(seconds)),
    ]
    return "\n".join(f"{name:<36}{value:>8}" for name, value in rows)


if __name__ == "__main__":
    command()
