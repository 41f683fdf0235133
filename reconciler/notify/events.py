"""Events of a run for its receivers, made from its report: addresses, sentences, counts; no secrets."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from reconciler.core.context import BASE
from reconciler.core.diagnostics import FOUND_BY_DRIFT, RULES_LOOSENED, UNKNOWN_OUTCOME, Diagnostic, Severity
from reconciler.planning.reviewed import NOT_IN_PLAN
from reconciler.project.attribution import attribution_of
from reconciler.project.settings import ProjectSettings
from reconciler.reports.escape import visible
from reconciler.reports.findings import DRIFT, findings_of
from reconciler.reports.report import ApplyReport, DriftReport, Failure, Report
from reconciler.reports.verdict import of_report

EventName = Literal["drift", "failed", "owed", "proposed", "question", "silent", "warning"]

Places = Mapping[str, str]  # file:line in the manifests, by address

_MOST_ITEMS = 50
_MOST_CHARACTERS = 800
_FAILED, _DECIDE = 1, 3  # exit codes
_WARNED = frozenset({NOT_IN_PLAN, RULES_LOOSENED})


class Item(Struct, frozen=True):
    """A sentence about one object. `address`: "" where none is known. `place`: in a manifest; "" for none."""

    address: str
    what: str
    place: str = ""


class Run(Struct, frozen=True):
    """The facts that all events of one run share. `at`: its end. `job_url`: "" outside of CI."""

    verb: str
    environment: str
    platform: str
    exit_code: int
    by: str
    job_url: str
    at: datetime


class Event(Struct, frozen=True):
    """One message. `items`: the first ones. `more`: the number of the others.

    `run_id`: as `history` shows it; "" where nothing was started.
    """

    name: EventName
    run: Run
    summary: str
    items: tuple[Item, ...] = ()
    more: int = 0
    lineage: str = ""
    revision: str = ""
    run_id: str = ""

    @property
    def type(self) -> str:
        """The type of the event in messages, such as `reconcile.drift`."""
        return f"reconcile.{self.name}"

    def to_json(self) -> dict[str, Any]:
        """The event as the `data` of a message. Receivers rely on these names."""
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


def run_of(config: ProjectSettings, verb: str, exit_code: int, at: datetime) -> Run:
    """The facts of a run in this project, as messages name them."""
    who, platform = attribution_of(config), config.settings.platform.base_url or ""
    return Run(verb, config.env or BASE, platform, exit_code, who.actor, who.url, at)


def events_of(report: Report, run: Run) -> list[Event]:
    """The events of a drift or an apply; none where a person declined, or a signal ended it."""
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
    if isinstance(report, DriftReport) and run.exit_code and (drift := list(_drift(report, places))):
        found.append(("drift", drift))
    if isinstance(report, ApplyReport) and report.owed:
        found.append(("owed", list(_owed(report, places))))
    warned = [_item(item, places, item.message) for item in report.diagnostics if item.code in _WARNED]
    if warned:
        found.append(("warning", warned))
    return [_event(name, report, run, items) for name, items in found]


def _event(name: EventName, report: Report, run: Run, items: list[Item]) -> Event:
    """The event `name` about a run, with its items cut to what receivers take."""
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
    """Calls with an unknown outcome, with the commands that settle them."""
    for problem in report.diagnostics:
        if problem.code == UNKNOWN_OUTCOME:
            help = problem.help.replace("\n  ", ": ", 1).replace("\n  ", ", ")
            yield _item(problem, places, f"{problem.message}; {help}")


def _failures(report: Report, places: Places) -> Iterator[Item]:
    """Failed steps, errors, and the message of a run that failed as a whole."""
    if isinstance(report, ApplyReport):
        for result in report.results:
            if result.outcome == "failed":
                step = result.step.rpartition("#")[2]
                what = f"{step} failed: {result.error}"
                yield Item(str(result.address), what, places.get(str(result.address), ""))
    for problem in filter(_is_failure, report.diagnostics):
        yield _item(problem, places, f"error[{problem.code}]: {problem.message}")
    if isinstance(report, Failure) and not report.diagnostics:
        yield Item("", report.message)


def _owed(report: ApplyReport, places: Places) -> Iterator[Item]:
    """Owed work, with its certainty and its reason."""
    for owed in report.owed:
        what = f"{owed.work}, {owed.certainty}, because {owed.because}"
        yield Item(str(owed.address), what, places.get(str(owed.address), ""))


def _item(problem: Diagnostic, places: Places, what: str) -> Item:
    """The item of a diagnostic, at its own place, else at the manifest of one of its addresses."""
    found = (places[address] for address in problem.addresses if address in places)
    place = problem.span.place if problem.span is not None else next(found, "")
    return Item(", ".join(problem.addresses), what, place)


def _is_failure(problem: Diagnostic) -> bool:
    return problem.severity is Severity.ERROR and problem.code != UNKNOWN_OUTCOME


def _drift(report: DriftReport, places: Places) -> Iterator[Item]:
    """The drifted objects, and warnings that count as drift, or are about the remains of a deleted one."""
    for found in findings_of(report):
        if found.code == DRIFT and found.severity is not Severity.INFO:
            (address,) = found.about
            yield Item(address, found.message.removeprefix(f"{address} "), places.get(address, ""))
    moved = {str(change.address) for change in report.plan.changes}
    for problem in report.diagnostics:
        counts = problem.code in FOUND_BY_DRIFT or moved.intersection(problem.addresses)
        if problem.severity is Severity.WARNING and counts:
            yield _item(problem, places, f"warning[{problem.code}]: {problem.message}; {problem.help}")


def _fit(text: str) -> str:
    """`text` as one line of at most 800 characters, without invisible ones."""
    line = visible(" ".join(text.split()))
    return line if len(line) <= _MOST_CHARACTERS else f"{line[: _MOST_CHARACTERS - 1]}…"
