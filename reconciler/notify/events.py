"""What of a run others want to know, from its report: addresses, sentences, places and counts; no secrets."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from reconciler.core.diagnostics import RULES_LOOSENED, UNKNOWN_OUTCOME, Diagnostic, Severity
from reconciler.planning.reviewed import NOT_IN_PLAN
from reconciler.reports.escape import visible
from reconciler.reports.findings import DRIFT, findings_of
from reconciler.reports.report import ApplyReport, DriftReport, Failure, Report
from reconciler.reports.verdict import of_report

EventName = Literal["drift", "failed", "owed", "question", "warning"]

Places = Mapping[str, str]  # of manifests, by address

_MOST_ITEMS = 50
_MOST_CHARACTERS = 800
_FAILED, _DECIDE = 1, 3  # exit codes
_WARNED = frozenset({NOT_IN_PLAN, RULES_LOOSENED})


class Item(Struct, frozen=True):
    """One object, or one thing to do where no object is known (""). `place`: in a manifest; "" for none."""

    address: str
    what: str
    place: str = ""


class Run(Struct, frozen=True):
    """What all events of one run have in common. `at`: when it ended. `job_url`: "" outside of CI."""

    verb: str
    environment: str
    platform: str
    exit_code: int
    by: str
    job_url: str
    at: datetime


class Event(Struct, frozen=True):
    """`items`: the first ones; `more`: how many others there are."""

    name: EventName
    run: Run
    summary: str
    items: tuple[Item, ...] = ()
    more: int = 0
    lineage: str = ""
    revision: str = ""
    run_id: str = ""  # as `history` shows it; "" where nothing was begun

    @property
    def type(self) -> str:
        return f"reconcile.{self.name}"

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.run_id,
            "verb": self.run.verb,
            "environment": self.run.environment,
            "platform": self.run.platform,
            "lineage": self.lineage,
            "revision": self.revision,
            "exit_code": self.run.exit_code,
            "summary": self.summary,
            "items": [
                {"address": item.address, "what": item.what, "place": item.place} for item in self.items
            ],
            "more": self.more,
            "by": self.run.by,
            "job_url": self.run.job_url,
        }


def events_of(report: Report, run: Run) -> list[Event]:
    """What has happened in a drift or an apply; nothing where a person said no, or a signal ended it."""
    if isinstance(report, Failure) and report.interrupted:
        return []
    if isinstance(report, ApplyReport) and report.ended == "declined":
        return []
    places = {str(address): span.place for address, span in report.declared.items()}
    questions = list(_questions(report, places))
    found: list[tuple[EventName, list[Item]]] = []
    if questions or run.exit_code == _DECIDE:
        found.append(("question", questions))
    failures = list(_failures(report, places))
    if failures or run.exit_code == _FAILED:
        found.append(("failed", failures))
    if isinstance(report, DriftReport) and report.plan.changes and run.exit_code:
        found.append(("drift", list(_drift(report, places))))
    if isinstance(report, ApplyReport) and report.owed:
        found.append(("owed", list(_owed(report, places))))
    warned = [_told(each, places, each.message) for each in report.diagnostics if each.code in _WARNED]
    if warned:
        found.append(("warning", warned))
    return [_event(name, report, run, items) for name, items in found]


def _event(name: EventName, report: Report, run: Run, items: list[Item]) -> Event:
    about = report.about
    return Event(
        name,
        run,
        _fit(of_report(report)),
        tuple(Item(_fit(item.address), _fit(item.what), _fit(item.place)) for item in items[:_MOST_ITEMS]),
        max(len(items) - _MOST_ITEMS, 0),
        (about.lineage or "") if about is not None else "",
        (about.revision or "") if about is not None else "",
        report.run if isinstance(report, ApplyReport) else "",
    )


def _questions(report: Report, places: Places) -> Iterator[Item]:
    """The commands to type are in the help."""
    for problem in report.diagnostics:
        if problem.code == UNKNOWN_OUTCOME:
            help = problem.help.replace("\n  ", ": ", 1).replace("\n  ", ", ")
            yield _told(problem, places, f"{problem.message}; {help}")


def _failures(report: Report, places: Places) -> Iterator[Item]:
    if isinstance(report, ApplyReport):
        for result in report.results:
            if result.outcome == "failed":
                step = result.step.rpartition("#")[2]
                what = f"{step} failed: {result.error}"
                yield Item(str(result.address), what, places.get(str(result.address), ""))
    for problem in filter(_is_failure, report.diagnostics):
        yield _told(problem, places, f"error[{problem.code}]: {problem.message}")
    if isinstance(report, Failure) and not report.diagnostics:
        yield Item("", report.message)


def _owed(report: ApplyReport, places: Places) -> Iterator[Item]:
    for each in report.owed:
        what = f"{each.work}, {each.certainty}, because {each.because}"
        yield Item(str(each.address), what, places.get(str(each.address), ""))


def _told(problem: Diagnostic, places: Places, what: str) -> Item:
    found = (places[each] for each in problem.addresses if each in places)
    place = problem.span.place if problem.span is not None else next(found, "")
    return Item(", ".join(problem.addresses), what, place)


def _is_failure(problem: Diagnostic) -> bool:
    return problem.severity is Severity.ERROR and problem.code != UNKNOWN_OUTCOME


def _drift(report: DriftReport, places: Places) -> Iterator[Item]:
    """What moved; of an object that is gone, also what is left of it."""
    for found in findings_of(report):
        if found.code == DRIFT and found.severity is not Severity.INFO:
            (address,) = found.about
            yield Item(address, found.message.removeprefix(f"{address} "), places.get(address, ""))
    moved = {str(change.address) for change in report.plan.changes}
    for problem in report.diagnostics:
        if problem.severity is Severity.WARNING and moved.intersection(problem.addresses):
            yield _told(problem, places, f"warning[{problem.code}]: {problem.message}; {problem.help}")


def _fit(text: str) -> str:
    """One line without unseen characters, of at most 800 characters."""
    line = visible(" ".join(text.split()))
    return line if len(line) <= _MOST_CHARACTERS else f"{line[: _MOST_CHARACTERS - 1]}…"
