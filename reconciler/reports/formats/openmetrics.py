"""The numbers of a run, for Prometheus. Nothing for a run that failed: a file of the run before stays."""

from reconciler.reports.formats import Format

FORMAT = Format(
    "openmetrics", frozenset({"plan", "drift", "apply", "inventory"}), lambda report: report.metrics
)
