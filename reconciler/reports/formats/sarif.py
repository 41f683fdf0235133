"""Findings as SARIF 2.1.0, for code scanning.

What stands in no file of the repository is a notification of the run: hosts take no result without a file.
"""

import re
from collections.abc import Iterable, Sequence
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
    return json_text({"$schema": SCHEMA, "version": "2.1.0", "runs": [_run(report)]})


def _run(report: Report) -> dict[str, Any]:
    findings = list(findings_of(report))
    codes = sorted({each.code for each in findings})
    rules = {code: at for at, code in enumerate(codes)}
    placed, unplaced = [], []
    for each, fingerprint in zip(findings, fingerprints(report, findings), strict=True):
        if (place := _place(report, each)) is not None:
            result = {"ruleId": each.code, "ruleIndex": rules[each.code], **_told(each), **place}
            placed.append(result | {"partialFingerprints": {"reconcile/v1": fingerprint}})
        else:
            rule = {"id": each.code, "index": rules[each.code]}
            unplaced.append({**_told(each), "associatedRule": rule, **_locations({}, each)})
    failed = any(each.severity is Severity.ERROR for each in findings)
    invocation: dict[str, Any] = {"executionSuccessful": not failed}
    if unplaced:
        invocation["toolExecutionNotifications"] = unplaced
    environment = f"{report.about.environment}/" if report.about is not None else ""
    return {
        "tool": {"driver": _driver(report, codes)},
        # Code scanning keeps the results of each of these apart.
        "automationDetails": {"id": f"reconcile/{report.kind}/{environment}"},
        "columnKind": "unicodeCodePoints",
        "invocations": [invocation],
        "results": placed,
    }


def _driver(report: Report, codes: Sequence[str]) -> dict[str, Any]:
    version = report.about.version if report.about is not None else program_version()
    uri = f"pkg:generic/reconciler@{version}"  # a package URL: the project has no address on the web
    return {"name": "reconcile", "version": version, "informationUri": uri, "rules": _rules(codes)}


def _rules(codes: Iterable[str]) -> list[dict[str, Any]]:
    explained = set(known_codes())
    return [_rule(code, explained=code in explained) for code in codes]


def _rule(code: str, *, explained: bool) -> dict[str, Any]:
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


def _told(finding: Finding) -> dict[str, Any]:
    text = "\n\n".join(filter(None, (finding.message, finding.help)))
    return {"level": _LEVELS[finding.severity], "message": {"text": _without_links(text)}}


def _without_links(text: str) -> str:
    """A viewer makes a link of `[text](target)`, unless its brackets are escaped. Source: SARIF, 3.11.6."""
    return _LINK.sub(r"\\\g<0>", text) if "](" in text else text


def _place(report: Report, finding: Finding) -> dict[str, Any] | None:
    """The file, from the root of the checkout, and the columns."""
    span = finding.span
    path = report.links.path(span.file) if span is not None else ""
    if span is None or not path:
        return None
    region = {
        "startLine": span.line,
        "startColumn": span.column,
        "endColumn": span.column + span.width,  # SARIF, too, names the first column after it
    }
    artifact = {"uri": quote(path), "uriBaseId": "%SRCROOT%"}
    return _locations({"physicalLocation": {"artifactLocation": artifact, "region": region}}, finding)


def _locations(found: dict[str, Any], finding: Finding) -> dict[str, Any]:
    """`found`, with the resources that the finding is about; nothing where both are empty."""
    if finding.about:
        names = [{"fullyQualifiedName": each, "kind": "resource"} for each in finding.about]
        found = found | {"logicalLocations": names}
    return {"locations": [found]} if found else {}


FORMAT = Format("sarif", RUNS, render, escape=spelled)
