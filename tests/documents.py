"""The JSON of reports as plain values, for tests."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from reconciler.core.diagnostics import Diagnostic
from reconciler.core.model import Change
from reconciler.core.steps import Plan
from reconciler.reports.documents import document_of
from reconciler.reports.escape import json_text
from reconciler.reports.fragments import DiagnosticJson
from reconciler.reports.report import DriftReport, PlanReport, Report


def document(report: Report) -> Any:
    return json.loads(json_text(document_of(report)))


def plan_document(plan: Plan) -> dict[str, Any]:
    """Without what every document has, and the digest."""
    found = document(PlanReport(plan=plan, diagnostics=plan.diagnostics))
    return {name: value for name, value in found.items() if name not in (*_COMMON, "digest")}


def drift_document(
    plan: Plan, unmanaged: Sequence[Change] = (), *, without_manifest: int = 0
) -> dict[str, Any]:
    """Without what every document has."""
    report = DriftReport(
        plan=plan, unmanaged=unmanaged, without_manifest=without_manifest, diagnostics=plan.diagnostics
    )
    return {name: value for name, value in document(report).items() if name not in _COMMON}


def diagnostic_documents(diagnostics: Iterable[Diagnostic]) -> Any:
    return json.loads(json_text(DiagnosticJson.all_of(diagnostics)))


_COMMON = ("format_version", "context")
