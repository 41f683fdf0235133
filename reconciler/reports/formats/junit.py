"""Reports as JUnit's XML, which CI systems show as tests: a case is a file, a change, an object or a call."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.diagnostics import Diagnostic, Severity
from reconciler.core.model import Action, Change
from reconciler.core.steps import Result
from reconciler.core.words import in_words
from reconciler.rehearsal.results import Rehearsal
from reconciler.reports import verdict
from reconciler.reports.diagnostics import render as excerpt
from reconciler.reports.escape import numbered, visible
from reconciler.reports.findings import DRIFT, OWED, findings_of
from reconciler.reports.formats import RUNS, Format
from reconciler.reports.report import ApplyReport, DriftReport, PlanReport, Report, ValidationReport

_COUNTED = (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))
_REHEARSAL = "rehearsal"
_ENDS = {"failed": "failure", "unknown": "error", "pending": "skipped", "skipped": "skipped"}


class _Case(Struct, frozen=True):
    """`ended`: `failure`, `error`, `skipped`, or "" for passed, with `message` and `text`. `out`: remarks."""

    group: str
    name: str
    ended: str = ""
    message: str = ""
    text: str = ""
    out: str = ""


def render(report: Report) -> str:
    """Return one suite with all cases."""
    cases = _with_own_names(_cases(report))
    ends = Counter(case.ended for case in cases)
    counts = {name: str(ends[ended]) for name, ended in _COUNTED}
    counts = {"tests": str(len(cases)), **counts, "time": "0"}
    suites = Element("testsuites", counts)
    environment = f" {visible(report.about.environment)}" if report.about is not None else ""
    suite = SubElement(suites, "testsuite", {"name": f"reconcile {report.kind}{environment}", **counts})
    if report.about is not None:
        suite.set("timestamp", report.about.at.strftime("%Y-%m-%dT%H:%M:%S"))
    for case in cases:
        _add(suite, case)
    indent(suites)
    return f"{tostring(suites, encoding='unicode')}\n"


def _with_own_names(cases: Iterable[_Case]) -> list[_Case]:
    """Number the cases of one group that have one name, since readers keep only one of a name."""
    seen: Counter[tuple[str, str]] = Counter()
    found = []
    for case in cases:
        seen[case.group, case.name] += 1
        number = seen[case.group, case.name]
        found.append(replace(case, name=f"{case.name} ({number})") if number > 1 else case)
    return found


def _add(suite: Element, case: _Case) -> None:
    names = {"classname": visible(case.group), "name": visible(case.name), "time": "0"}
    element = SubElement(suite, "testcase", names)
    if case.ended:
        ended = SubElement(element, case.ended, {"message": visible(case.message)})
        ended.text = case.text or None
    if case.out:
        SubElement(element, "system-out").text = case.out


def _cases(report: Report) -> Iterator[_Case]:
    match report:
        case ValidationReport():
            yield from _files(report)
            return
        case PlanReport():
            yield from _planned(report, report.plan.changes)
        case ApplyReport():
            yield from map(_done, report.results)
            yield from _planned(report, report.plan.changes if not report.results else ())
        case DriftReport():
            yield from _drifted(report)
            yield from _problems(report, report.problems)
        case _:
            yield from _problems(report, report.problems)
    if report.rehearsal is not None:
        yield from _rehearsed(report.rehearsal)
    if report.forecast is not None:
        for item in report.forecast.items:
            out = f"when: {verdict.moment(item.when)}"
            yield _Case("forecast", f"{item.address}: {item.what}", out=out)
    for finding in findings_of(report):
        if finding.code == OWED:
            yield _Case("owed", finding.about[0], out=finding.text)


def _files(report: ValidationReport) -> Iterator[_Case]:
    """One case for each file, and one for each problem outside of them."""
    by_file: dict[str, list[Diagnostic]] = {name: [] for name in report.files}
    others: list[Diagnostic] = []
    for item in report.diagnostics:
        (by_file.setdefault(item.span.file, []) if item.span is not None else others).append(item)
    for name, items in by_file.items():
        errors = [item for item in items if item.severity is Severity.ERROR]
        remarks = _text(report, [item for item in items if item.severity is not Severity.ERROR])
        if errors:
            yield _Case("files", name, "failure", errors[0].message, _text(report, errors), remarks)
        else:
            yield _Case("files", name, out=remarks)
    yield from _problems(report, others)


def _problems(report: Report, problems: Iterable[Diagnostic]) -> Iterator[_Case]:
    for item in problems:
        name = item.span.place if item.span is not None else ", ".join(item.addresses) or "project"
        text = _text(report, [item])
        if item.severity is Severity.ERROR:
            yield _Case(item.code, name, "error", item.message, text)
        else:
            yield _Case(item.code, name, out=text)


def _planned(report: Report, changes: Iterable[Change]) -> Iterator[_Case]:
    """One case for each change. A refused one fails, with its errors; other problems are cases, too."""
    changes = list(changes)
    refused = [change for change in changes if change.action is Action.REFUSED]
    why: dict[str, list[Diagnostic]] = {str(change.address): [] for change in refused}
    others = []
    for item in report.problems:
        about = [address for address in item.addresses if address in why]
        if about and item.severity is Severity.ERROR:
            for address in about:
                why[address].append(item)
        else:
            others.append(item)
    for change in changes:
        name = f"{change.address}: {' and '.join(map(verdict.word, change.actions))}"
        if (text := why.get(str(change.address))) is not None:
            yield _Case(change.address.kind, name, "failure", change.reason, _text(report, text))
        else:
            yield _Case(change.address.kind, name, out=visible(change.reason))
    yield from _problems(report, others)


def _rehearsed(found: Rehearsal) -> Iterator[_Case]:
    """One case for each call and fault. A run that asks a person, or is not finished yet, is skipped.

    Nobody can prevent questions: where no call can show the effect of a lost answer, a person must decide. A
    run that fails is a failure. So is a clean run that does not converge or differs from the plan.
    """
    differences = found.differences
    ended = "failure" if differences else ""
    lines = "\n".join(map(visible, differences))
    yield _Case(_REHEARSAL, "as the plan says", ended, "; ".join(differences), lines)
    for cell in found.cells:
        name = f"{cell.step}: {cell.fault}" if cell.step else "clean run"
        ended = "failure" if cell.end == "failed" or not cell.step else "skipped"
        message = ": ".join(filter(None, (verdict.ENDS[cell.end], cell.question or cell.error)))
        out = [f"{verdict.ENDS[cell.end]} after {in_words(cell.duration_s)}"]
        out += [f"owed: {work}" for work in verdict.owed_by(cell)]
        passed = cell.end == "converged"
        remarks = "\n".join(map(visible, out))
        yield _Case(_REHEARSAL, name, "" if passed else ended, "" if passed else message, out=remarks)
    for left in found.unrehearsed:
        yield _Case(_REHEARSAL, str(left.address), "skipped", left.why)


def _drifted(report: DriftReport) -> Iterator[_Case]:
    """One case for each object that drifted, which fails; one passed case stands for all others."""
    for finding in findings_of(report):
        if finding.code == DRIFT:
            address, failed = finding.about[0], finding.severity is Severity.WARNING
            out = "" if failed else finding.message
            yield _Case(
                address.partition("/")[0], address, "failure" if failed else "", finding.message, out=out
            )
    if report.plan.unchanged:
        yield _Case("all", f"{report.plan.unchanged} without drift")


def _done(result: Result) -> _Case:
    ended, why = _ENDS.get(result.outcome, ""), result.error or result.outcome
    return _Case(result.address.kind, result.step, ended, why, out=visible(result.note))


def _text(report: Report, items: Sequence[Diagnostic]) -> str:
    """The excerpts of the text format; they are visible already."""
    return excerpt(items, report.read_line)


FORMAT = Format("junit", RUNS, render, escape=numbered)
