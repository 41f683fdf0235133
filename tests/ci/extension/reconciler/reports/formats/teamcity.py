"""Findings as TeamCity's service messages, one line each.

Source: TeamCity, "Service messages".
"""

from reconciler.core.diagnostics import Severity
from reconciler.reports.findings import findings_of
from reconciler.reports.formats import RUNS, Format
from reconciler.reports.report import Report

_ESCAPES = str.maketrans({"|": "||", "'": "|'", "[": "|[", "]": "|]", "\n": "|n", "\r": "|r"})
_STATUSES = {Severity.ERROR: "ERROR", Severity.WARNING: "WARNING", Severity.INFO: "NORMAL"}


def write(report: Report) -> str:
    lines = []
    for finding in findings_of(report):
        text = f"{finding.code}: {finding.message}".translate(_ESCAPES)
        lines.append(f"##teamcity[message text='{text}' status='{_STATUSES[finding.severity]}']\n")
    return "".join(lines) or f"##teamcity[message text='{report.kind}: no findings' status='NORMAL']\n"


FORMAT = Format("teamcity", RUNS, write)
