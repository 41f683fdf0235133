"""`reconcile policy`: try guardrails before they count."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

import click

from reconciler.cli.chosen_state import ChosenState
from reconciler.cli.command_line import settings_here
from reconciler.cli.event_loop import run
from reconciler.cli.group import Group
from reconciler.cli.options import Moment
from reconciler.cli.output import emit
from reconciler.cli.verb import DONE, FAILED, argument, option, verb
from reconciler.core.context import Context
from reconciler.core.errors import ReconcilerError
from reconciler.core.words import counted
from reconciler.guardrails.limit import CASE, require_limits
from reconciler.guardrails.rules import Finding
from reconciler.manifests.files import name_of
from reconciler.project.policy import Backtest, Tried, backtest, try_case
from reconciler.reports.escape import page_text
from reconciler.reports.report import Page
from reconciler.state.store import JournalEntry, Store


@click.group("policy", cls=Group)
def policy() -> None:
    """Try guardrails: on cases, and on what was really done."""


@verb("test", of=policy)
def judge_cases(
    folder: Path = argument(default=".", type=click.Path(path_type=Path), metavar="[DIR]"),
) -> int:
    """Judge the plan of each *.case.yaml below DIR, and compare the verdicts with those that it names.

    Exit 1 where one differs. `reconcile explain Guardrail` has the variables, the manual the form of cases.
    """
    config = settings_here(manifests_only=True)
    limits = require_limits(config.written.guardrails, config.root)
    files = sorted(folder.rglob(f"*{CASE}"))
    if not files:
        raise ReconcilerError(f"no *{CASE} is below {folder}", help="write one, or name its folder")

    async def try_all() -> list[Tried]:
        return [await try_case(file, name_of(str(file), config.root), limits) for file in files]

    tried = run(try_all)
    wrong = sum(bool(case.wrong) for case in tried)
    document = [
        {
            "file": case.file,
            "verdicts": dict(case.verdicts),
            "wrong": {
                rule: {"wanted": wanted, "found": found} for rule, (wanted, found) in case.wrong.items()
            },
        }
        for case in tried
    ]
    emit(Page(document={"cases": document}, text=page_text(list(_lines_of_cases(tried)))))
    return FAILED if wrong else DONE


def _lines_of_cases(tried: Sequence[Tried]) -> Iterator[str]:
    for case in tried:
        yield f"{'FAILED' if case.wrong else 'ok    '}  {case.file}"
        for rule, (wanted, found) in case.wrong.items():
            yield f"          {rule}: wanted {wanted}, found {found}"
    wrong = sum(bool(case.wrong) for case in tried)
    yield f"{counted(len(tried), 'case')}, {wrong} with another verdict than wanted."


@verb("backtest", of=policy)
def judge_past(
    chosen: ChosenState,
    since: datetime | None = option(
        "--since", "Only runs since then (30d, 12w, or a date in UTC).", type=Moment(), metavar="90d|DATE"
    ),
) -> None:
    """Judge each past run by today's rules: which would have been refused, and which rules never matched.

    Reads the journal and asks no platform. What the journal does not tell is "not recorded".
    """
    limits = require_limits(chosen.config.written.guardrails, chosen.config.root)

    async def read(store: Store) -> Sequence[tuple[str, JournalEntry]]:
        return await store.journal(since=since)

    journal, context = chosen.read(read)
    found = backtest(limits, journal, context)
    emit(_backtest_page(found, context), paged=True)


def _backtest_page(found: Backtest, context: Context) -> Page:
    runs = [
        {
            "run": past.run,
            "at": f"{past.at:%Y-%m-%dT%H:%M:%SZ}",
            "actor": past.actor,
            "refused": [_finding(item) for item in past.refused],
            "not_recorded": [_finding(item) for item in past.unknown],
        }
        for past in found.verdicts
    ]
    never = [limit.name for limit in found.never]
    document = {"runs": found.runs, "judged": runs, "never_matched": never}
    return Page(document={"backtest": document}, text=page_text(list(_lines(found))), context=context)


def _finding(finding: Finding) -> dict[str, str]:
    return {"rule": finding.limit.name, "address": str(finding.address), "why": finding.why}


def _lines(found: Backtest) -> Iterator[str]:
    refused = sum(bool(past.refused) for past in found.verdicts)
    yield f"{counted(found.runs, 'run')} judged, {refused} would have been refused."
    for past in found.verdicts:
        yield f"  {past.at:%Y-%m-%d %H:%M} UTC  {past.run}  {past.actor}"
        for item in past.refused:
            yield f"      refused: {item.limit.name}: {item.address}: {item.why}"
        for item in past.unknown:
            yield f"      not recorded: {item.limit.name}: {item.address}: {item.why}"
    if found.never:
        yield f"Never matched: {', '.join(limit.name for limit in found.never)}."
