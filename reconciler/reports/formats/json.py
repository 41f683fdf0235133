"""Reports as one JSON document with a version, for programs."""

from typing import Any

from reconciler.planning.digest import plan_digest
from reconciler.reports import forecast, rehearsal
from reconciler.reports.diagnostics import diagnostic_documents
from reconciler.reports.documents import (
    apply_document,
    budget_document,
    context_document,
    drift_document,
    failure_document,
    plan_document,
)
from reconciler.reports.formats import Format
from reconciler.reports.json_text import json_text, spelled
from reconciler.reports.report import (
    ApplyReport,
    DriftReport,
    Failure,
    Page,
    PlanReport,
    Report,
    ValidationReport,
)

FORMAT_VERSION = "1"


def render(report: Report) -> str:
    begins: dict[str, Any] = {"format_version": FORMAT_VERSION}
    if report.about is not None:
        begins["context"] = context_document(report.about)
    return json_text(begins | document(report))


def document(report: Report) -> dict[str, Any]:
    match report:
        case PlanReport():
            plan = plan_document(report.plan, diagnostics=report.diagnostics)
            plan["digest"] = plan_digest(report.plan)
            if report.rehearsal is not None:
                plan["rehearsal"] = rehearsal.document(report.rehearsal)
            if report.forecast is not None:
                plan["forecast"] = forecast.document(report.forecast)
            return plan | budget_document(report.budget)
        case DriftReport():
            drift = drift_document(
                report.plan,
                report.unmanaged,
                without_manifest=report.without_manifest,
                only_new=report.only_new,
                diagnostics=report.diagnostics,
            )
            return drift | dict(report.more)
        case ApplyReport():
            return apply_document(
                report.plan,
                report.results,
                report.owed,
                head=report.head,
                ended=report.ended,
                diagnostics=report.diagnostics,
            ) | budget_document(report.budget)
        case ValidationReport():
            problems: dict[str, Any] = {"diagnostics": diagnostic_documents(report.diagnostics)}
            if report.environments:
                problems |= {"environments": list(report.environments)}
            if report.changed is None:
                return problems
            return problems | {"changed": list(report.changed), "dependants": list(report.dependants)}
        case Page():
            return dict(report.document)
        case Failure():
            return failure_document(report.problems)
    raise TypeError(f"JSON shows no {report.kind}")


FORMAT = Format("json", frozenset({"plan", "drift", "apply", "validate", "page"}), render, escape=spelled)
