"""A run's results as text, JSON and JUnit. Secrets and signatures are masked in all of them."""

from io import BytesIO
from textwrap import indent
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from reconciler.providers.check.run import Report, Result

_MARKS = {"passed": "ok", "failed": "FAIL", "not checked": "--"}


def line(result: Result) -> str:
    """One result; a failure with what was sent, what came and what is demanded."""
    head = f"{_MARKS[result.outcome]:<4} {result.title}"
    if result.outcome == "not checked":
        return f"{head}\n       not checked: {result.problem}"
    if result.outcome == "passed":
        return head
    parts = [
        head,
        f"       {result.problem}",
        f"       required: {result.demand}",
        f"       source:   {result.source}",
    ]
    for name, text in (("sent:", result.sent), ("came:", result.came)):
        if text:
            parts += [f"       {name}", indent(text, "         ")]
    return "\n".join(parts)


def summary(report: Report) -> str:
    """How many checks passed, failed and were not checked, and which resources are left."""
    parts = [f"{report.count('passed')} passed", f"{report.count('failed')} failed"]
    skipped = report.count("not checked")
    if skipped:
        parts.append(f"{skipped} not checked")
    text = ", ".join(parts)
    if report.left:
        text += f"\nnot deleted: {', '.join(report.left)}"
    return text


def document(report: Report) -> dict[str, Any]:
    """The run as one JSON document."""
    return {
        "format_version": "1",
        "url": report.url,
        "checks": [to_builtins(replace(result, took_s=round(result.took_s, 3))) for result in report.results],
        "summary": {
            "passed": report.count("passed"),
            "failed": report.count("failed"),
            "not_checked": report.count("not checked"),
        },
        "not_deleted": report.left,
    }


def junit(report: Report) -> str:
    """JUnit XML: a suite for each group; what was not checked is a skipped case."""
    from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite

    xml = JUnitXml("reconcile provider check")
    for group in dict.fromkeys(result.group for result in report.results):
        suite = TestSuite(group)
        for result in report.results:
            if result.group != group:
                continue
            case = TestCase(result.name, f"provider.{group}", result.took_s)
            if result.outcome == "failed":
                failure = Failure(_printable(result.problem), "unmet")
                failure.text = _printable(line(result))
                case.result = [failure]
            elif result.outcome == "not checked":
                case.result = [Skipped(_printable(result.problem), "not checked")]
            suite.add_testcase(case)
        xml.add_testsuite(suite)
    written = BytesIO()
    xml.write(written, pretty=True)
    return written.getvalue().decode("utf-8")


def _printable(text: str) -> str:
    """XML has no control characters."""
    return "".join(
        char if char.isprintable() or char == "\n" else "\N{REPLACEMENT CHARACTER}" for char in text
    )
