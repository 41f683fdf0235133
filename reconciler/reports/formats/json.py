"""Reports as one JSON document with a version, for programs."""

from reconciler.reports.documents import document_of
from reconciler.reports.escape import json_text, spelled
from reconciler.reports.formats import RUNS, Format
from reconciler.reports.report import Report


def render(report: Report) -> str:
    return json_text(document_of(report))


FORMAT = Format("json", RUNS | {"forecast", "graph", "inventory", "page"}, render, escape=spelled)
