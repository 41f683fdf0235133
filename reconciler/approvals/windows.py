"""Windows and freezes that count in a run: what waits for them, and which steps may not start now.

The windows of each revision that counts are asked apart, and all have to be open: one more window in the
change that needs it would else open what the others keep shut.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from reconciler.approvals.in_force import Terms, rules_count
from reconciler.core.advice import command
from reconciler.core.context import UNKNOWN_ORIGIN
from reconciler.core.diagnostics import Diagnostic, error
from reconciler.core.model import Action, Address, Change, Impact, Owed, StateRecord, Waits, owed_work
from reconciler.core.steps import Plan, Result, Step
from reconciler.project.project import Project
from reconciler.state.store import State

if TYPE_CHECKING:  # few projects have windows
    from reconciler.guardrails.calendar import Calendar

_KINDS = ("Freeze", "Window")


def _calendars(terms: Terms) -> "Sequence[Calendar]":
    """One for each revision that has windows or freezes."""
    if not rules_count(terms.authority, terms.state):
        return ()
    several = {
        tuple(limit for limit in said.limits if limit.kind in _KINDS): None for said in terms.several()
    }
    if not any(several):
        return ()
    from reconciler.guardrails.calendar import Calendar

    return [Calendar(limits) for limits in several if limits]


class Windows:
    """What the windows and freezes in force hold back. `stepped_over`: addresses that wait for no window."""

    def __init__(self, terms: Terms, stepped_over: Collection[str] = ()) -> None:
        self._plan = terms.plan
        self._calendars = _calendars(terms)
        self._stepped_over = stepped_over
        self._changes = {change.address: change for change in terms.plan.changes}
        asked = {step.id for step in terms.plan.steps if step.if_owed}
        # What has stopped a machine starts it again, whatever the hour.
        self._ends = {step.id for step in terms.plan.steps if step.if_owed and asked.intersection(step.after)}

    def waits(self, change: Change, at: datetime) -> Waits | None:
        """What `change` waits for at that time; None: it may go out."""
        return self._waits(change.impact, change.actions, at, str(change.address) in self._stepped_over)

    def _waits(
        self, impact: Impact, actions: Collection[Action], at: datetime, stepped_over: bool = False
    ) -> Waits | None:
        if not self._calendars:
            return None
        from reconciler.guardrails.calendar import waits

        return waits(self._calendars, impact, actions, at, stepped_over=stepped_over)

    def why_not(self, step: Step, at: datetime) -> str:
        """Why `step` may not start at that time; "" if it may."""
        if not self._calendars or not step.mutates or step.id in self._ends:
            return ""
        change = self._changes.get(step.address, Change(step.address, Action.NOOP))
        found = self.waits(change, at)
        return found.said(at) if found is not None else ""

    def annotated(self) -> Plan:
        """The plan, with what its changes wait for and when owed work may be done."""
        plan, at = self._plan, self._plan.context.at
        if not self._calendars:
            return plan
        sent = {step.address for step in plan.steps if step.mutates}
        changes = (
            replace(change, waits=self.waits(change, at) if change.address in sent else None)
            for change in plan.changes
        )
        return replace(self.dated_plan(), changes=tuple(changes))

    def dated_plan(self) -> Plan:
        """The plan, with the earliest time for its owed work."""
        return replace(self._plan, owed=self.dated(self._plan.owed, self._plan.context.at))

    def dated(self, owed: Sequence[Owed], at: datetime) -> tuple[Owed, ...]:
        """The owed work with the earliest time for it."""
        if not self._calendars or not owed:
            return tuple(owed)
        found = self._waits(Impact.RESTART, (Action.RESTART,), at)
        return tuple(replace(work, earliest=found.until if found is not None else at) for work in owed)

    def left(self, at: datetime) -> Sequence[Result] | None:
        """The results where nothing may start at that time; None: something may, or a record changes."""
        plan = self._plan
        if not self._calendars or plan.moves or any(change.action in _WRITTEN for change in plan.changes):
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
        for change in self._plan.changes:
            address = str(change.address)
            waits = self.waits(change, at) if address in demanded else None
            if waits is None:
                continue
            frozen = self._waits(change.impact, change.actions, at, stepped_over=True)
            if frozen is not None or address not in signed:
                found.append(_closed(change, frozen or waits, at, frozen=frozen is not None))
        return found


def owed_in(project: Project, state: State, records: Mapping[Address, StateRecord]) -> tuple[Owed, ...]:
    """What `records` owe, with the dates of it as of now."""
    nothing = Plan("", project.context(UNKNOWN_ORIGIN, state.lineage), (), (), (), (), owed_work(records), ())
    return Windows(Terms(project.authority, {}, state, nothing)).dated_plan().owed


_WRITTEN = (Action.ADOPT, Action.FORGET)  # nothing is sent for these


def _closed(change: Change, waits: Waits, at: datetime, *, frozen: bool) -> Diagnostic:
    """The error for a change that `--now` demands."""
    advice = (
        command("plan", "--out", "FILE"),
        command("approve", "FILE", "--override", change.address, "--reason", "TEXT"),
        command("apply", "--plan", "FILE", "--approval", "FILE.NAME.approval", "--now", change.address),
    )
    help = f"people may let it go out now: `{'`, `'.join(map(str, advice))}`"
    return error(
        "window-closed",
        f"`{change.address}` {waits.said(at)}: {'a freeze' if frozen else 'nobody signed for now'}",
        help="nobody steps over a freeze: leave `--now` out, or end the freeze in a change of its own"
        if frozen
        else help,
        advice=() if frozen else advice,
        about=(change.address,),
    )
