"""What a report complains about, one by one: for hosts that show problems at the lines of files."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import sha256

from msgspec import Struct

from reconciler.core.diagnostics import Severity, Span
from reconciler.core.model import Change, Owed
from reconciler.core.steps import OutcomeWord
from reconciler.rehearsal.matrix import End, Rehearsal
from reconciler.rehearsal.outlook import Item
from reconciler.reports import verdict
from reconciler.reports.escape import in_json, visible
from reconciler.reports.report import ApplyReport, DriftReport, PlanReport, Report

# Beside the codes of diagnostics:
DRIFT, NOT_DONE, OWED = "drift", "not-done", "owed"
DIFFERS = "rehearsal-differs"
FORECAST = "forecast"
_REHEARSED: dict[End, str] = {"decision": "rehearsal-decision", "failed": "rehearsal-failed"}
TITLES = {
    DRIFT: "an object has changed on the platform without us",
    NOT_DONE: "a call of the plan is not done",
    OWED: "work is owed that nobody has done yet",
    FORECAST: "this will come to pass if nobody does anything",
    DIFFERS: "a clean run on the twin does not do what the plan says",
    _REHEARSED["decision"]: "in a rehearsal, a person must decide",
    _REHEARSED["failed"]: "in a rehearsal, the plan fails",
}
_SEVERITIES: dict[OutcomeWord, Severity] = {
    "failed": Severity.ERROR,
    "unknown": Severity.ERROR,
    "pending": Severity.WARNING,
    "skipped": Severity.WARNING,
}
_REMARKS = ("inferred-id", "not-compared")  # nothing has to be done about them
_NUMBER = re.compile(r"\d+")


class Finding(Struct, frozen=True):
    """`message` is one line, and `help` has its lines; both are visible. `about`: addresses of resources."""

    code: str
    severity: Severity
    message: str
    help: str = ""
    span: Span | None = None
    about: tuple[str, ...] = ()


def findings_of(report: Report) -> Iterator[Finding]:
    """Diagnostics, drift, steps that are not done, what is owed, what a rehearsal and a forecast found."""
    for item in report.problems:
        if item.code in _REMARKS:
            continue
        texts = [*item.notes, *([item.help] if item.help else [])]
        message = f"{item.message}: {item.label}" if item.label else item.message
        lines = (visible(line) for text in texts for line in text.splitlines())
        yield Finding(item.code, item.severity, visible(message), "\n".join(lines), item.span, item.addresses)
    if isinstance(report, DriftReport):
        yield from (_drifted(report, each, Severity.WARNING) for each in report.plan.changes)
        yield from (_drifted(report, each, Severity.INFO) for each in report.unmanaged)
    if isinstance(report, ApplyReport):
        for result in report.results:
            if result.outcome != "done":
                message = visible(f"{result.step} is {result.outcome}: {result.error}".removesuffix(": "))
                span = report.declared.get(result.address)
                severity = _SEVERITIES[result.outcome]
                yield Finding(NOT_DONE, severity, message, visible(result.note), span, (str(result.address),))

    if isinstance(report, PlanReport | DriftReport | ApplyReport):
        owed = report.owed if isinstance(report, ApplyReport) else report.plan.owed
        yield from (_owed(report, each) for each in owed)
    if isinstance(report, PlanReport) and report.rehearsal is not None:
        yield from _rehearsed(report, report.rehearsal)
    if isinstance(report, PlanReport) and report.forecast is not None:
        yield from (_ahead(report, each) for each in report.forecast.items)


def _rehearsed(report: PlanReport, found: Rehearsal) -> Iterator[Finding]:
    """What a clean run does differently; and by call and end what does not go well, with its faults.

    A clean run has to go well. What becomes of a fault is for a person to judge.
    """
    for each in found.differences:
        message = f"on the twin, a clean run differs from the plan: {each}"
        yield Finding(DIFFERS, Severity.ERROR, visible(message))
    addresses = {step.id: step.address for step in report.plan.steps}
    for step in ("", *found.steps):
        address = addresses.get(step)
        span = report.declared.get(address) if address is not None else None
        about = (str(address),) if address is not None else ()
        for (end, said, _), faults in verdict.group_cells(found.of_step(step)).items():
            if end in _REHEARSED:
                with_faults = f" with {', '.join(faults)}" if step else ""
                message = f"{verdict.of_run(step, end)}{with_faults}: {said}"
                severity = Severity.WARNING if step else Severity.ERROR
                yield Finding(_REHEARSED[end], severity, visible(message), "", span, about)


def _owed(report: Report, owed: Owed) -> Finding:
    message = f"{owed.address}: {verdict.owed_words(owed.work, owed.certainty)}, because {owed.because}"
    help = "\n".join(visible(f"once done: {command}") for command in owed.advice)
    span = report.declared.get(owed.address)
    return Finding(OWED, Severity.INFO, visible(message), help, span, (str(owed.address),))


def _ahead(report: Report, item: Item) -> Finding:
    when = f"{verdict.moment(item.when)}: " if item.when is not None else ""
    message = f"{when}{item.address}: {item.what}"
    severity = Severity.INFO if item.when is None else Severity.WARNING
    span = report.declared.get(item.address)
    return Finding(FORECAST, severity, visible(message), "", span, (str(item.address),))


def fingerprints(report: Report, findings: Iterable[Finding]) -> list[str]:
    """One for each finding: the same in every run that finds it, wherever its line has moved.

    Numbers in a message may be ages or counts. Of equal findings each has its own.
    """
    seen: Counter[str] = Counter()
    made = []
    for each in findings:
        path = report.links.path(each.span.file) if each.span is not None else ""
        message = _NUMBER.sub("0", each.message)
        key = json.dumps([report.kind, _environment(report), each.code, path, each.about, message])
        seen[key] += 1
        made.append(sha256(f"{key}{seen[key]}".encode()).hexdigest())
    return made


def _environment(report: Report) -> str:
    return report.about.environment if report.about is not None else ""


def _drifted(report: DriftReport, change: Change, severity: Severity) -> Finding:
    fields = (f"{each.path}: {in_json(each.before)} -> {in_json(each.after)}" for each in change.fields)
    message = f"{change.address} {change.reason}; {', '.join(fields)}".removesuffix("; ")
    span = report.declared.get(change.address)
    return Finding(DRIFT, severity, visible(message), "", span, (str(change.address),))
