"""Numbers of scopes, of one run and of an inventory, for Prometheus.

Names are by its conventions; times are seconds since 1970.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from reconciler.controller.status import Look, ScopeStatus, Status, View, scopes_of
from reconciler.core.context import BASE, program_version
from reconciler.drift.find import Drift
from reconciler.inventory.page import ItemJson
from reconciler.planning.declared import Desired
from reconciler.project.project import Project
from reconciler.project.run import Applied
from reconciler.state.store import WHOLE_STATE

# By name: what it says, and its labels apart from the environment.
_GAUGES = {
    "build_info": ("The running program.", "version"),
    "scope_status": ("1 for the status that a scope has.", "scope", "status"),
    "scope_status_since_timestamp_seconds": ("When it got this status.", "scope"),
    "scope_last_success_timestamp_seconds": ("The last look that could tell.", "scope"),
    "scope_last_apply_timestamp_seconds": ("The last apply that ended.", "scope"),
    "scope_owed": ("Restarts that are owed.", "scope"),
    "scope_owed_since_timestamp_seconds": ("The oldest of them.", "scope"),
    "scope_open_questions": ("Calls that a person has to settle.", "scope"),
    "objective_due_timestamp_seconds": ("When it will be missed.", "scope", "address", "objective"),
    "drill_last_success_timestamp_seconds": ("The last good restore drill.", "scope", "address"),
    "drill_recovery_seconds": ("How long its restore took.", "scope", "address"),
    "drill_lost_seconds": ("How old the newest data was that it restored.", "scope", "address"),
    "object_used_bytes": ("How much of it is in use.", "scope", "address"),
    "object_total_bytes": ("How much it holds when it is full.", "scope", "address"),
    "suspended_scopes": ("Scopes that people suspended.",),
}
_COUNTERS = {
    "calls": ("Calls by outcome.", "outcome"),
    "rate_limit_wait_seconds": ("Time in which requests waited for the platform's rate limit.",),
}


class Collector:
    """Gives the metrics of all controllers of this process when they are asked for."""

    def __init__(self, views: Sequence[View]) -> None:
        self._views = views

    def collect(self) -> Iterator[Metric]:
        families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}
        for kind, named in ((GaugeMetricFamily, _GAUGES), (CounterMetricFamily, _COUNTERS)):
            for name, (what, *labels) in named.items():
                families[name] = kind(f"reconciler_{name}", what, labels=["environment", *labels])
        for view in self._views:
            for name, value, *labels in _samples(view):
                if value is not None:
                    number = value.timestamp() if isinstance(value, datetime) else value
                    families[name].add_metric([view.environment, *labels], number)
        yield from (family for family in families.values() if family.samples)


def _samples(view: View) -> Iterator[tuple[str, datetime | float | None, *tuple[str, ...]]]:
    """Name, value and labels; a value of None is not known."""
    yield "build_info", 1, program_version()
    for scope, each in view.statuses.items():
        yield "scope_status", 1, scope, str(each.status)
        yield "scope_status_since_timestamp_seconds", None if view.once else each.since, scope
        yield "scope_last_success_timestamp_seconds", each.last_success, scope
        yield "scope_last_apply_timestamp_seconds", view.applied.get(scope), scope
        if (seen := view.seen.get(scope)) is not None:
            yield "scope_owed", seen.owed, scope
            yield "scope_owed_since_timestamp_seconds", seen.owed_since, scope
            yield "scope_open_questions", seen.questions, scope
            for (address, objective), at in seen.due.items():
                yield "objective_due_timestamp_seconds", at, scope, address, objective
            for address, good in seen.proven.items():
                yield "drill_last_success_timestamp_seconds", good.at, scope, address
                yield "drill_recovery_seconds", good.recovery_s, scope, address
                yield "drill_lost_seconds", good.lost_s, scope, address
            for address, fill in seen.fills.items():
                yield "object_used_bytes", fill.used_bytes, scope, address
                yield "object_total_bytes", fill.total_bytes, scope, address
    yield "suspended_scopes", sum(each.status is Status.SUSPENDED for each in view.statuses.values())
    for outcome, number in view.calls.items():
        yield "calls", number, outcome
    yield "rate_limit_wait_seconds", view.waited_s


def text(views: Sequence[View]) -> str:
    """The metrics in Prometheus' text format 0.0.4."""
    return generate_latest(Collector(views)).decode()


# --- of one run ---


async def text_of_run(project: Project, desired: Desired, made: Any) -> str:
    """The metrics of a drift, an applied plan, or a plan with more. Raises ReconcilerError."""
    return text([await _view(project, desired, made)])


async def _view(project: Project, desired: Desired, made: Any) -> View:
    """The scopes after one run. What drifted is among the changes of a plan; an apply leaves some undone."""
    plan = made[0] if isinstance(made, tuple) else made.plan
    drift = made if isinstance(made, Drift) else Drift(replace(plan, changes=(), diagnostics=()), {})
    results = made.results if isinstance(made, Applied) else ()
    if isinstance(made, Applied):
        undone = {each.address for each in results if each.outcome != "done"}
        left = [each for each in plan.changes if made.declined or each.address in undone]
        plan = replace(plan, changes=left, owed=made.owed, diagnostics=(*plan.diagnostics, *made.notices))
    state, now = await project.store.load(), project.clock.now()
    scopes = scopes_of(state, desired.resources)
    names = {*scopes.values()} - {WHOLE_STATE}
    held = await project.store.holders(names)
    seen = Look(drift, plan, state, desired.by_address, scopes, held).seen(names)
    return View(
        project.environment or BASE,
        {scope: ScopeStatus(scope, each.status, now).after(each, now) for scope, each in seen.items()},
        seen,
        {scopes[each.address]: now for each in results if each.address in scopes},
        Counter(each.outcome for each in results),
        project.platform.rate.waited_s,
        once=True,
    )


# --- of an inventory ---

_NUMBERS: dict[str, tuple[str, Callable[[ItemJson], Any]]] = {
    "objects": ("Objects on the platform.", lambda item: 1),
    "detached_objects": ("Those without a machine.", lambda item: item.attached is False),
    "size_gigabytes": ("Their sizes.", lambda item: item.size_gb),
    "used_bytes": ("Their data, where it is known.", lambda item: item.used_bytes),
    "copies": ("Their snapshots and backups.", lambda item: item.copies and item.copies.count),
    "copies_bytes": ("The sizes of these.", lambda item: item.copies and item.copies.bytes),
    "monthly_price": ("What they cost in a month, with their copies.", lambda item: item.cost),
}
_LABELS = ("environment", "kind", "place", "owner")


def text_of_inventory(items: Sequence[ItemJson], environment: str) -> str:
    """The sums in Prometheus' text format 0.0.4. A number that nothing tells is left out."""
    registry = CollectorRegistry()
    for name, (what, number) in _NUMBERS.items():
        gauge = Gauge(f"reconciler_inventory_{name}", what, _LABELS, registry=registry)
        for item in items:
            if (found := number(item)) is not None:
                gauge.labels(environment, item.kind, item.place, item.owner).inc(float(found))
    return generate_latest(registry).decode()
