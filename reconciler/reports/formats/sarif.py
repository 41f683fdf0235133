"""Findings as SARIF 2.1.0, for code scanning.

A finding in no file of the repository is a notification of the run: hosts take no result without a file.
"""

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from reconciler.core.context import program_version
from reconciler.core.diagnostics import Severity
from reconciler.explanations import known_codes, read_explanation
from reconciler.reports.escape import json_text, spelled
from reconciler.reports.findings import TITLES, Finding, findings_of, fingerprints
from reconciler.reports.formats import RUNS, Format
from reconciler.reports.report import Report

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_LINK = re.compile(r"[\[\]\\]")


def render(report: Report) -> str:
    """Return a log with one run."""
    return json_text({"$schema": SCHEMA, "version": "2.1.0", "runs": [_run(report)]})


def _run(report: Report) -> dict[str, Any]:
    findings = findings_of(report)
    codes = sorted({finding.code for finding in findings})
    index = {code: at for at, code in enumerate(codes)}
    results, notifications = [], []
    for finding, fingerprint in zip(findings, fingerprints(report, findings), strict=True):
        code = finding.code
        if finding.path:
            rule = {"ruleId": code, "ruleIndex": index[code]}
            known_by = {"partialFingerprints": {"reconcile/v1": fingerprint}}
            results.append(rule | _message(finding) | _locations(finding) | known_by)
        else:
            rule = {"associatedRule": {"id": code, "index": index[code]}}
            notifications.append(_message(finding) | rule | _locations(finding))
    failed = any(finding.severity is Severity.ERROR for finding in findings)
    invocation: dict[str, Any] = {"executionSuccessful": not failed}
    if notifications:
        invocation["toolExecutionNotifications"] = notifications
    environment = f"{report.about.environment}/" if report.about is not None else ""
    return {
        "tool": {"driver": _driver(report, codes)},
        # Code scanning keeps the results of each id apart.
        "automationDetails": {"id": f"reconcile/{report.kind}/{environment}"},
        "columnKind": "unicodeCodePoints",
        "invocations": [invocation],
        "results": results,
    }


def _driver(report: Report, codes: Sequence[str]) -> dict[str, Any]:
    version = report.about.version if report.about is not None else program_version()
    explained = set(known_codes())
    rules = [_rule(code, explained=code in explained) for code in codes]
    uri = f"pkg:generic/reconciler@{version}"  # a package URL: the project has no address on the web
    return {"name": "reconcile", "version": version, "informationUri": uri, "rules": rules}


def _rule(code: str, *, explained: bool) -> dict[str, Any]:
    """The title and the page of a code."""
    title = text = TITLES.get(code, code)
    if explained:
        page = read_explanation(code)
        title, text = page.title, page.text
    return {
        "id": code,
        "shortDescription": {"text": title},
        "fullDescription": {"text": " ".join(text.partition("\n\n")[0].split())},
        "help": {"text": text, "markdown": text},
    }


def _message(finding: Finding) -> dict[str, Any]:
    text = "\n\n".join(filter(None, (finding.message, finding.help)))
    return {"level": _LEVELS[finding.severity], "message": {"text": _without_links(text)}}


def _without_links(text: str) -> str:
    """A viewer makes a link of `[text](target)`, unless its brackets are escaped. Source: SARIF, 3.11.6."""
    return _LINK.sub(r"\\\g<0>", text) if "](" in text else text


def _locations(finding: Finding) -> dict[str, Any]:
    """The place in the file, if it is in one, and the resources; {} where the finding has neither."""
    found: dict[str, Any] = {}
    if finding.path and (span := finding.span) is not None:
        region = {
            "startLine": span.line,
            "startColumn": span.column,
            "endColumn": span.column + span.width,  # the first one behind the marked text
        }
        artifact = {"uri": quote(finding.path), "uriBaseId": "%SRCROOT%"}
        found["physicalLocation"] = {"artifactLocation": artifact, "region": region}
    if finding.about:
        found["logicalLocations"] = [
            {"fullyQualifiedName": address, "kind": "resource"} for address in finding.about
        ]
    return {"locations": [found]} if found else {}


FORMAT = Format("sarif", RUNS, render, escape=spelled)
