"""Findings as GitLab's code quality report, which merge requests show.

Source: GitLab, "Code Quality report format".
"""

from reconciler.core.diagnostics import Severity
from reconciler.reports.escape import json_text, spelled
from reconciler.reports.findings import findings_of, fingerprints
from reconciler.reports.formats import RUNS, Format
from reconciler.reports.report import Report

_SEVERITIES = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.INFO: "info"}


def render(report: Report) -> str:
    findings = list(findings_of(report))
    # GitLab wants a file and a line for each; what is in none stands at the settings, or at a manifest.
    spans = (*(each.span for each in findings), *report.declared.values())
    paths = [report.links.settings, *(report.links.path(span.file) for span in spans if span is not None)]
    no_place = {"path": next(filter(None, paths), "."), "lines": {"begin": 1}}
    found = []
    for each, fingerprint in zip(findings, fingerprints(report, findings), strict=True):
        path = report.links.path(each.span.file) if each.span is not None else ""
        place = {"path": path, "lines": {"begin": each.span.line}} if each.span is not None and path else None
        found.append(
            {
                "description": f"{each.message} ({each.help})" if each.help else each.message,
                "check_name": each.code,
                "fingerprint": fingerprint,
                "severity": _SEVERITIES[each.severity],
                "location": place or no_place,
            }
        )
    return json_text(found)


FORMAT = Format("gitlab", RUNS, render, escape=spelled)
