"""The order of a report that people read: the grave changes first, the others by app; and their numbers."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from reconciler.core.model import Action, Address, Change, Impact, Owed
from reconciler.core.steps import Plan, Result, Step
from reconciler.reports.report import ApplyReport, DriftReport, PlanReport

NO_APP = "no app"  # the title of resources outside of apps
_NOTHING_SENT = (Action.FORGET, Action.RETAIN, Action.REFUSED, Action.NOOP)


class Sections(Struct, frozen=True):
    """The parts of a report about a plan.

    `first`: changes that destroy, interrupt or restart, or objects that are gone. `apps`: the other changes
    by app, "" for none. `unmanaged`: objects whose drift is in fields that no manifest declares; they are in
    `apps`, too.
    """

    first: Sequence[Change]
    apps: Mapping[str, Sequence[Change]]
    steps: Sequence[Step] = ()
    results: Sequence[Result] = ()
    owed: Sequence[Owed] = ()
    unmanaged: frozenset[Address] = frozenset()

    @property
    def size(self) -> int:
        """The number of changes."""
        return len(self.first) + sum(map(len, self.apps.values()))


def sections_of(report: PlanReport | DriftReport | ApplyReport) -> Sections:
    """Group the changes of a report. An apply with results shows these instead of its steps."""
    plan = report.plan
    match report:
        case DriftReport():
            changes = (*plan.changes, *report.unmanaged)
            first = [change for change in plan.changes if is_gone(change)]
            unmanaged = frozenset(change.address for change in report.unmanaged)
            return Sections(first, _by_app(changes, first), owed=plan.owed, unmanaged=unmanaged)
        case PlanReport():
            first = weighty(plan)
            return Sections(first, _by_app(plan.changes, first), plan.steps, owed=plan.owed)
        case ApplyReport():
            first = weighty(plan)
            steps = () if report.results else plan.steps
            return Sections(first, _by_app(plan.changes, first), steps, report.results, report.owed)
    raise TypeError(f"no sections of {report.kind}")


def weighty(plan: Plan) -> list[Change]:
    """The changes that destroy, interrupt or restart, the gravest first."""
    deletes, order = frozenset(plan.deletes), list(Impact)
    found = [
        change
        for change in plan.changes
        if change.address in deletes or (change.impact is not Impact.ONLINE and touches(change))
    ]
    found.sort(key=lambda change: (change.address in deletes, order.index(change.impact)), reverse=True)
    return found


def touches(change: Change) -> bool:
    """Whether a change sends anything to the platform."""
    return any(action not in _NOTHING_SENT for action in change.actions)


def is_gone(change: Change) -> bool:
    """Whether drift found no object with the recorded id."""
    return any(field.path == "id" and field.after is None for field in change.fields)


def count_actions(plan: Plan) -> Counter[Action]:
    """Count the actions of all changes; one change may have several. Unchanged resources count as noop."""
    counts = Counter(action for change in plan.changes for action in change.actions)
    counts[Action.NOOP] += plan.unchanged
    return counts


def count_waiting(plan: Plan) -> int:
    """Count the changes that wait for a window, or for the end of a freeze."""
    return sum(change.waits is not None for change in plan.changes)


def _by_app(changes: Iterable[Change], first: Sequence[Change]) -> dict[str, list[Change]]:
    """Group the changes that are not in `first`, by the name of the app."""
    shown = set(map(id, first))
    found: dict[str, list[Change]] = {}
    for change in changes:
        if id(change) not in shown:
            found.setdefault(change.address.app or "", []).append(change)
    return dict(sorted(found.items()))
