"""Reports as JUnit's XML, which CI systems show as tests: a file, a change, an object or a call is one."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.diagnostics import Diagnostic, Severity
from reconciler.core.model import Action, Change
from reconciler.core.steps import Result
from reconciler.core.words import in_words
from reconciler.rehearsal.matrix import Rehearsal
from reconciler.reports import verdict
from reconciler.reports.diagnostics import render as excerpt
from reconciler.reports.escape import numbered, visible
from reconciler.reports.findings import DRIFT, OWED, Finding, findings_of
from reconciler.reports.formats import RUNS, Format
from reconciler.reports.report import (
    ApplyReport,
    DriftReport,
    PlanReport,
    Report,
    ValidationReport,
)

_COUNTED = (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))
_REHEARSAL = "rehearsal"
_ENDS = {"failed": "failure", "unknown": "error", "pending": "skipped", "skipped": "skipped"}


class _Case(Struct, frozen=True):
    """`ended`: `failure`, `error`, `skipped`, or "" for passed. `text`: more about that; `out`: remarks."""

    group: str
    name: str
    ended: str = ""
    message: str = ""
    text: str = ""
    out: str = ""


def render(report: Report) -> str:
    cases = _apart(_cases(report))
    counts = {name: str(sum(each.ended == ended for each in cases)) for name, ended in _COUNTED}
    counts = {"tests": str(len(cases)), **counts, "time": "0"}
    suites = Element("testsuites", counts)
    environment = f" {visible(report.about.environment)}" if report.about is not None else ""
    suite = SubElement(suites, "testsuite", {"name": f"reconcile {report.kind}{environment}", **counts})
    if report.about is not None:
        suite.set("timestamp", report.about.at.strftime("%Y-%m-%dT%H:%M:%S"))
    for each in cases:
        _add(suite, each)
    indent(suites)
    return f"{tostring(suites, encoding='unicode')}\n"


def _apart(cases: Iterable[_Case]) -> list[_Case]:
    """`cases` with a number in each name that another case of its group has: readers keep one of a name."""
    seen: Counter[tuple[str, str]] = Counter()
    found = []
    for each in cases:
        seen[each.group, each.name] += 1
        number = seen[each.group, each.name]
        found.append(replace(each, name=f"{each.name} ({number})") if number > 1 else each)
    return found


def _add(suite: Element, case: _Case) -> None:
    element = SubElement(
        suite, "testcase", {"classname": visible(case.group), "name": visible(case.name), "time": "0"}
    )
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
    for each in findings_of(report):
        if each.code == OWED:
            yield _Case("owed", each.about[0], out="\n".join(filter(None, (each.message, each.help))))


def _files(report: ValidationReport) -> Iterator[_Case]:
    """A case a file, and one for each problem that is in none of them."""
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
    """A change that is refused fails, with the errors about it; other problems are cases of their own."""
    changes = list(changes)
    why: dict[str, list[Diagnostic]] = {
        str(each.address): [] for each in changes if each.action is Action.REFUSED
    }
    others = []
    for item in report.problems:
        refused = [each for each in item.addresses if each in why and item.severity is Severity.ERROR]
        for each in refused:
            why[each].append(item)
        if not refused:
            others.append(item)
    for change in changes:
        name = f"{change.address}: {' and '.join(map(verdict.word, change.actions))}"
        if (text := why.get(str(change.address))) is not None:
            yield _Case(change.address.kind, name, "failure", change.reason, _text(report, text))
        else:
            yield _Case(change.address.kind, name, out=visible(change.reason))
    yield from _problems(report, others)


def _rehearsed(found: Rehearsal) -> Iterator[_Case]:
    """A case for each call and fault. One that asks a person, or is not finished yet, is skipped.

    Nobody can prevent that: a lost answer is a question wherever no call can show what became of it. A run
    that fails is a failure, and so is a clean one that does not converge or not do as the plan says.
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
    """Each object that drifted fails; a single case stands for all others."""
    found: Sequence[Finding] = [each for each in findings_of(report) if each.code == DRIFT]
    for each in found:
        ended = "failure" if each.severity is Severity.WARNING else ""
        group = each.about[0].partition("/")[0]
        yield _Case(group, each.about[0], ended, each.message, out="" if ended else each.message)
    if report.plan.unchanged:
        yield _Case("all", f"{report.plan.unchanged} without drift")


def _done(result: Result) -> _Case:
    ended, why = _ENDS.get(result.outcome, ""), result.error or result.outcome
    return _Case(result.address.kind, result.step, ended, why, out=visible(result.note))


def _text(report: Report, items: Sequence[Diagnostic]) -> str:
    """As people read them; already visible."""
    return excerpt(items, report.read_line)


FORMAT = Format("junit", RUNS, render, escape=numbered)
