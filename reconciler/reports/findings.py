"""The findings of a report, one by one: for hosts that show problems at the lines of files."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.diagnostics import Diagnostic, Severity, Span
from reconciler.core.model import Address, Change
from reconciler.core.steps import OutcomeWord
from reconciler.rehearsal.results import End, Rehearsal
from reconciler.reports import verdict
from reconciler.reports.escape import in_json, visible
from reconciler.reports.report import ApplyReport, DriftReport, PlanReport, Report

# Besides the codes of diagnostics:
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
    """One finding. `message` is one line, `help` may have several; both are visible.

    `about`: addresses of resources. `path`: of the file, from the root of the checkout; "" where the finding
    is in no file of the repository.
    """

    code: str
    severity: Severity
    message: str
    help: str = ""
    span: Span | None = None
    about: tuple[str, ...] = ()
    path: str = ""

    @property
    def text(self) -> str:
        """The message, and the help on lines of its own."""
        return "\n".join(filter(None, (self.message, self.help)))


def findings_of(report: Report) -> list[Finding]:
    """Diagnostics, drift, steps that are not done, owed work, and findings of a rehearsal or forecast."""
    return [
        replace(finding, path=report.links.path(finding.span.file)) if finding.span is not None else finding
        for finding in _findings(report)
    ]


def _findings(report: Report) -> Iterator[Finding]:
    yield from (_problem(item) for item in report.problems if item.code not in _REMARKS)
    if isinstance(report, DriftReport):
        yield from (_drifted(report, change, Severity.WARNING) for change in report.plan.changes)
        yield from (_drifted(report, change, Severity.INFO) for change in report.unmanaged)
    if isinstance(report, ApplyReport):
        for result in report.results:
            if result.outcome != "done":
                message = f"{result.step} is {result.outcome}: {result.error}".removesuffix(": ")
                severity = _SEVERITIES[result.outcome]
                yield _about(report, result.address, NOT_DONE, severity, message, visible(result.note))
    if isinstance(report, PlanReport | DriftReport | ApplyReport):
        for owed in report.owed if isinstance(report, ApplyReport) else report.plan.owed:
            work = verdict.owed_words(owed.work, owed.certainty)
            message = ", ".join(filter(None, (f"{owed.address}: {work}", verdict.owed_dates(owed))))
            message += f", because {owed.because}"
            help = "\n".join(visible(f"once done: {command}") for command in owed.advice)
            yield _about(report, owed.address, OWED, Severity.INFO, message, help)
    if isinstance(report, PlanReport) and report.rehearsal is not None:
        yield from _rehearsed(report, report.rehearsal)
    if isinstance(report, PlanReport) and report.forecast is not None:
        for item in report.forecast.items:
            when = f"{verdict.moment(item.when)}: " if item.when is not None else ""
            severity = Severity.INFO if item.when is None else Severity.WARNING
            yield _about(report, item.address, FORECAST, severity, f"{when}{item.address}: {item.what}")


def _about(
    report: Report, address: Address, code: str, severity: Severity, message: str, help: str = ""
) -> Finding:
    """A finding about one resource, at its manifest."""
    return Finding(code, severity, visible(message), help, report.declared.get(address), (str(address),))


def _problem(item: Diagnostic) -> Finding:
    message = f"{item.message}: {item.label}" if item.label else item.message
    lines = [visible(line) for text in (*item.notes, item.help) for line in text.splitlines()]
    return Finding(item.code, item.severity, visible(message), "\n".join(lines), item.span, item.addresses)


def _drifted(report: DriftReport, change: Change, severity: Severity) -> Finding:
    fields = (f"{field.path}: {in_json(field.before)} -> {in_json(field.after)}" for field in change.fields)
    message = f"{change.address} {change.reason}; {', '.join(fields)}".removesuffix("; ")
    return _about(report, change.address, DRIFT, severity, message)


def _rehearsed(report: PlanReport, rehearsal: Rehearsal) -> Iterator[Finding]:
    """The differences of the clean run; and by step and end the runs that do not converge.

    A clean run must go well, else it is an error. A person judges the end of a run with a fault.
    """
    for difference in rehearsal.differences:
        message = f"on the twin, a clean run differs from the plan: {difference}"
        yield Finding(DIFFERS, Severity.ERROR, visible(message))
    addresses = {step.id: step.address for step in report.plan.steps}
    for step in ("", *rehearsal.steps):
        for (end, said, _), faults in verdict.group_cells(rehearsal.of_step(step)).items():
            if end not in _REHEARSED:
                continue
            with_faults = f" with {', '.join(faults)}" if step else ""
            message = f"{verdict.of_run(step, end)}{with_faults}: {said}"
            severity = Severity.WARNING if step else Severity.ERROR
            if (address := addresses.get(step)) is not None:
                yield _about(report, address, _REHEARSED[end], severity, message)
            else:
                yield Finding(_REHEARSED[end], severity, visible(message))


def fingerprints(report: Report, findings: Sequence[Finding]) -> list[str]:
    """One fingerprint for each finding: the same in every run that finds it, wherever its line has moved.

    Numbers in a message may be ages or counts, so they do not count. Equal findings have different ones.
    """
    seen: Counter[str] = Counter()
    made = []
    environment = report.about.environment if report.about is not None else ""
    for finding in findings:
        message = _NUMBER.sub("0", finding.message)
        key = json.dumps([report.kind, environment, finding.code, finding.path, finding.about, message])
        seen[key] += 1
        made.append(sha256(f"{key}{seen[key]}".encode()).hexdigest())
    return made
