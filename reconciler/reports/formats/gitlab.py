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
    """Return a JSON list of findings.

    GitLab wants a file and a line for each. A finding without one is shown at the settings or at a manifest.
    """
    findings = findings_of(report)
    declared = (report.links.path(span.file) for span in report.declared.values())
    paths = (report.links.settings, *(finding.path for finding in findings), *declared)
    elsewhere = next(filter(None, paths), ".")
    return json_text(
        [
            {
                "description": f"{finding.message} ({finding.help})" if finding.help else finding.message,
                "check_name": finding.code,
                "fingerprint": fingerprint,
                "severity": _SEVERITIES[finding.severity],
                "location": {
                    "path": finding.path or elsewhere,
                    "lines": {"begin": finding.span.line if finding.span and finding.path else 1},
                },
            }
            for finding, fingerprint in zip(findings, fingerprints(report, findings), strict=True)
        ]
    )


FORMAT = Format("gitlab", RUNS, render, escape=spelled)
