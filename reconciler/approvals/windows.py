"""Windows and freezes that count in a run: what waits for them, and which steps may not start now.

The windows of each revision that counts are asked apart, and all have to be open: one more window in the
change that needs it would else open what the others keep shut.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial

from msgspec.structs import replace

from reconciler.approvals.in_force import Terms, rules_count
from reconciler.core.advice import command
from reconciler.core.context import UNKNOWN_ORIGIN
from reconciler.core.diagnostics import Diagnostic, error
from reconciler.core.model import Action, Address, Change, Impact, Owed, StateRecord, Waits, owed_work
from reconciler.core.steps import Plan, Result, Step
from reconciler.project.project import Project
from reconciler.state.store import State

_KINDS = ("Freeze", "Window")
_WRITTEN = (Action.ADOPT, Action.FORGET)  # nothing is sent for these


def _asked(terms: Terms) -> Callable[..., Waits | None] | None:
    """`calendar.waits` of the windows and freezes of each revision; None where there are none."""
    said = terms.several() if rules_count(terms.authority, terms.state) else ()
    several = {tuple(limit for limit in each.limits if limit.kind in _KINDS): None for each in said}
    if not any(several):
        return None
    from reconciler.guardrails.calendar import Calendar, waits  # few projects have windows

    return partial(waits, [Calendar(limits) for limits in several if limits])


class Windows:
    """What the windows and freezes in force hold back. `stepped_over`: addresses that wait for no window."""

    def __init__(self, terms: Terms, stepped_over: Collection[str] = ()) -> None:
        self._plan = terms.plan
        self._scratch = terms.scratch
        self._ask = _asked(terms)
        self._stepped_over = stepped_over
        self._changes = {change.address: change for change in terms.plan.changes}
        asked = {step.id for step in terms.plan.steps if step.if_owed}
        # What has stopped a machine starts it again, whatever the hour.
        self._ends = {step.id for step in terms.plan.steps if step.if_owed and asked.intersection(step.after)}

    def waits(self, change: Change, at: datetime, *, stepped_over: bool = False) -> Waits | None:
        """What `change` waits for at that time; None: it may go out. `stepped_over`: but for windows."""
        if self._ask is None:
            return None
        if change.address in self._scratch and change.action is Action.DELETE:
            return None  # what a drill has left is removed at any time
        over = stepped_over or str(change.address) in self._stepped_over
        return self._ask(change.impact, change.actions, at, stepped_over=over)

    def why_not(self, step: Step, at: datetime) -> str:
        """Why `step` may not start at that time; "" if it may."""
        if self._ask is None or not step.mutates or step.id in self._ends:
            return ""
        change = self._changes.get(step.address, Change(step.address, Action.NOOP))
        found = self.waits(change, at)
        return found.said(at) if found is not None else ""

    def annotated(self) -> Plan:
        """The plan, with what its changes wait for, and the earliest time for its owed work."""
        plan, at = self._plan, self._plan.context.at
        if self._ask is None:
            return plan
        sent = {step.address for step in plan.steps if step.mutates}
        changes = (
            replace(change, waits=self.waits(change, at) if change.address in sent else None)
            for change in plan.changes
        )
        return replace(plan, changes=tuple(changes), owed=self.dated(plan.owed, at))

    def dated(self, owed: Sequence[Owed], at: datetime) -> tuple[Owed, ...]:
        """The owed work, with the earliest time for it."""
        if self._ask is None or not owed:
            return tuple(owed)
        found = self._ask(Impact.RESTART, (Action.RESTART,), at)
        return tuple(replace(work, earliest=found.until if found is not None else at) for work in owed)

    def left(self, at: datetime) -> Sequence[Result] | None:
        """The results where nothing may start at that time; None: something may, or a record changes."""
        plan = self._plan
        if self._ask is None or plan.moves or any(change.action in _WRITTEN for change in plan.changes):
            return None
        results: dict[str, Result] = {}
        for step in plan.steps:
            blocker = next((id for id in step.after if id in results), None)
            if blocker is not None:
                why = f"waits for {blocker}, which is {results[blocker].outcome}"
                results[step.id] = Result(step.address, step.id, "skipped", error=why)
            elif why := self.why_not(step, at):
                results[step.id] = Result(step.address, step.id, "pending", error=why)
            else:
                return None
        return tuple(results.values()) or None

    def refused(self, demanded: Collection[str], signed: Collection[str], at: datetime) -> list[Diagnostic]:
        """An error for each address of `--now` that a freeze holds, or that nobody signed."""
        found = []
        for change in self._plan.changes if demanded else ():
            address = str(change.address)
            frozen = self.waits(change, at, stepped_over=True)
            if address in demanded and frozen is not None:
                help = "nobody steps over a freeze: leave `--now` out, or end the freeze in its own change"
                found.append(
                    error("window-closed", f"`{address}` {frozen.said(at)}", help=help, about=(address,))
                )
            elif address in {*demanded} - {*signed} and (held := self.waits(change, at)) is not None:
                found.append(_unsigned(change.address, held.said(at)))
        return found


def _unsigned(address: Address, waits: str) -> Diagnostic:
    """The error for a change that is to go out now, which nobody signed."""
    advice = (
        command("plan", "--out", "FILE"),
        command("approve", "FILE", "--override", address, "--reason", "TEXT"),
        command("apply", "--plan", "FILE", "--approval", "FILE.NAME.approval", "--now", address),
    )
    help = f"people may let it go out now: `{'`, `'.join(map(str, advice))}`"
    message = f"`{address}` {waits}; nobody signed for now"
    return error("window-closed", message, help=help, advice=advice, about=(address,))


def owed_in(project: Project, state: State, records: Mapping[Address, StateRecord]) -> tuple[Owed, ...]:
    """What `records` owe, with its dates as of now."""
    context = project.context(UNKNOWN_ORIGIN, state.lineage)
    nothing = Plan("", context, (), (), (), (), owed_work(records), ())
    return Windows(Terms(project.authority, {}, state, nothing)).annotated().owed
