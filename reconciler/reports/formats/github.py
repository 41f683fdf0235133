"""Findings as GitHub's workflow commands: annotations at the lines of a pull request. Gitea reads them, too.

Source: GitHub, "Workflow commands"; which characters are escaped: actions/toolkit, `core/src/command.ts`.
"""

from functools import partial

from reconciler.core.diagnostics import Severity
from reconciler.reports import verdict
from reconciler.reports.escape import visible
from reconciler.reports.findings import Finding, findings_of
from reconciler.reports.formats import RUNS, Format
from reconciler.reports.formats.markdown import render_within
from reconciler.reports.report import Failure, Report

_LONGEST_SUMMARY = 1_000_000  # bytes; GitHub drops the summary of a step that has more than 1 MiB
_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def render(report: Report) -> str:
    """Return the context and the verdict as lines of the log, then a command for each finding."""
    first = ""
    if report.about is not None:
        about = (text if isinstance(text, str) else text[0] for text in verdict.about(report.about))
        first = f"{report.kind} of {''.join(about)}"  # so that no name begins a command
    summary = verdict.of_report(report) if not isinstance(report, Failure) else ""  # its command says it
    rehearsed = verdict.of_rehearsal(report.rehearsal) if report.rehearsal is not None else ""
    ahead = verdict.of_forecast(report.forecast) if report.forecast is not None else ""
    lines = [visible(line) for line in (first, summary, rehearsed, ahead) if line]
    lines += map(_command, findings_of(report))
    return "".join(f"{line}\n" for line in lines)


def _command(finding: Finding) -> str:
    properties: dict[str, object] = {}
    if finding.path and (span := finding.span) is not None:
        properties |= {"file": finding.path, "line": span.line, "col": span.column}
        properties |= {"endColumn": span.column + span.width - 1}  # the last one that is marked
    properties["title"] = finding.code
    said = ",".join(f"{name}={_property(visible(str(value)))}" for name, value in properties.items())
    return f"::{_COMMANDS[finding.severity]} {said}::{_data(finding.text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


FORMAT = Format("github", RUNS, render, step_summary=partial(render_within, most=_LONGEST_SUMMARY))
