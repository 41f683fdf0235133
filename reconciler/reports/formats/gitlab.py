"""Findings as GitLab's code quality report, which merge requests show.

Source: GitLab, "Code Quality report format".
"""

from reconciler.core.diagnostics import Severity
from reconciler.reports.findings import findings_of, fingerprints
from reconciler.reports.formats import Format
from reconciler.reports.json_text import json_text, spelled
from reconciler.reports.report import Page, Report

# GitLab wants a file and a line for each problem; one of the whole project stands at its settings.
_NO_PLACE = "reconcile.yaml"
_SEVERITIES = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.INFO: "info"}


def render(report: Report) -> str:
    if isinstance(report, Page):
        raise TypeError(f"GitLab's format shows no {report.kind}")
    findings = list(findings_of(report))
    found = []
    for each, fingerprint in zip(findings, fingerprints(report, findings), strict=True):
        path = report.places.path(each.span.file) if each.span is not None else ""
        place = {"path": path, "lines": {"begin": each.span.line}} if each.span is not None and path else None
        found.append(
            {
                "description": f"{each.message} ({each.help})" if each.help else each.message,
                "check_name": each.code,
                "fingerprint": fingerprint,
                "severity": _SEVERITIES[each.severity],
                "location": place or {"path": report.places.path(_NO_PLACE), "lines": {"begin": 1}},
            }
        )
    return json_text(found)


FORMAT = Format("gitlab", frozenset({"plan", "drift", "apply", "validate"}), render, escape=spelled)
