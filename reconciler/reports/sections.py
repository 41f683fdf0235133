"""What of a plan is read first, and what belongs together: for formats that people read in a browser."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from reconciler.core.model import Action, Address, Change, Impact, Owed
from reconciler.core.steps import Plan, Result, Step
from reconciler.reports.report import ApplyReport, DriftReport, PlanReport

_NOTHING_SENT = (Action.FORGET, Action.RETAIN, Action.REFUSED, Action.NOOP)


class Sections(Struct, frozen=True):
    """`first`: what destroys, interrupts, restarts or is gone. `apps`: the rest by app, "" for none.

    `unmanaged`: what drifted of fields that no manifest says; its changes are in `apps`.
    """

    first: Sequence[Change]
    apps: Mapping[str, Sequence[Change]]
    steps: Sequence[Step] = ()
    results: Sequence[Result] = ()
    owed: Sequence[Owed] = ()
    unmanaged: frozenset[Address] = frozenset()

    @property
    def size(self) -> int:
        return len(self.first) + sum(map(len, self.apps.values()))


def sections_of(report: PlanReport | DriftReport | ApplyReport) -> Sections:
    plan = report.plan
    match report:
        case DriftReport():
            changes = (*plan.changes, *report.unmanaged)
            first = [each for each in plan.changes if is_gone(each)]
            aside = frozenset(each.address for each in report.unmanaged)
            return Sections(first, _by_app(changes, first), owed=plan.owed, unmanaged=aside)
        case PlanReport():
            first = weighty(plan)
            return Sections(first, _by_app(plan.changes, first), plan.steps, owed=plan.owed)
        case ApplyReport():
            first = weighty(plan)
            steps = () if report.results else plan.steps
            return Sections(first, _by_app(plan.changes, first), steps, report.results, report.owed)
    raise TypeError(f"no sections of {report.kind}")


def weighty(plan: Plan) -> list[Change]:
    """What destroys, interrupts or restarts, the gravest first."""
    deletes = frozenset(plan.deletes)
    found = [
        each
        for each in plan.changes
        if each.address in deletes or (each.impact is not Impact.ONLINE and touches(each))
    ]
    order = list(Impact)
    return sorted(found, key=lambda each: (each.address in deletes, order.index(each.impact)), reverse=True)


def touches(change: Change) -> bool:
    """Whether something is sent for it."""
    return any(action not in _NOTHING_SENT for action in change.actions)


def is_gone(change: Change) -> bool:
    """Whether drift found nothing at the recorded id."""
    return any(field.path == "id" and field.after is None for field in change.fields)


def _by_app(changes: Iterable[Change], first: Sequence[Change]) -> dict[str, list[Change]]:
    shown = set(map(id, first))
    found: dict[str, list[Change]] = {}
    for each in changes:
        if id(each) not in shown:
            found.setdefault(each.address.app or "", []).append(each)
    return dict(sorted(found.items()))
