"""The numbers of a controller, for Prometheus. Names by its conventions; times are seconds since 1970."""

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric

from reconciler.controller.status import Status, View
from reconciler.core.context import program_version


class Collector:
    """Gives the metrics of all controllers of this process when they are asked for."""

    def __init__(self, views: Sequence[View]) -> None:
        self._views = views

    def collect(self) -> Iterator[Metric]:
        build = InfoMetricFamily("reconciler_build", "The running program.")
        build.add_metric([], {"version": program_version()})
        yield build
        status = _gauge("scope_status", "1 for the status that a scope has.", "scope", "status")
        since = _gauge("scope_status_since_timestamp_seconds", "When it got this status.", "scope")
        success = _gauge("scope_last_success_timestamp_seconds", "The last look that could tell.", "scope")
        applied = _gauge("scope_last_apply_timestamp_seconds", "The last apply that ended.", "scope")
        owed = _gauge("scope_owed", "Restarts that are owed.", "scope")
        oldest = _gauge("scope_owed_since_timestamp_seconds", "The oldest of them.", "scope")
        questions = _gauge("scope_open_questions", "Calls that a person has to settle.", "scope")
        suspended = _gauge("suspended_scopes", "Scopes that people suspended.")
        calls = CounterMetricFamily(
            "reconciler_calls", "Calls by outcome.", labels=["environment", "outcome"]
        )
        for view in self._views:
            for scope, each in view.statuses.items():
                labels, seen = [view.environment, scope], view.seen.get(scope)
                status.add_metric([*labels, str(each.status)], 1)
                since.add_metric(labels, each.since.timestamp())
                if each.last_success is not None:
                    success.add_metric(labels, each.last_success.timestamp())
                if scope in view.applied:
                    applied.add_metric(labels, view.applied[scope].timestamp())
                if seen is not None:
                    owed.add_metric(labels, seen.owed)
                    questions.add_metric(labels, seen.questions)
                    if seen.owed_since is not None:
                        oldest.add_metric(labels, seen.owed_since.timestamp())
            held = sum(each.status is Status.SUSPENDED for each in view.statuses.values())
            suspended.add_metric([view.environment], held)
            for outcome, number in view.calls.items():
                calls.add_metric([view.environment, outcome], number)
        yield from (status, since, success, applied, owed, oldest, questions, suspended, calls)


def _gauge(name: str, what: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"reconciler_{name}", what, labels=["environment", *labels])


def registry(views: Sequence[View]) -> CollectorRegistry:
    """The metrics of these controllers, as an exposition wants them."""
    found = CollectorRegistry()
    found.register(Collector(views))
    return found
