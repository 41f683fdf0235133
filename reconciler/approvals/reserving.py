"""Reserves what a run will send before its first intent, so that runs at the same time count each other.

A note of the state holds the reservations. It is changed under the lease of the whole state, and read there
before the journal.
"""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import anyio
from msgspec import to_builtins
from msgspec.structs import replace

from reconciler.approvals.budgets import judge_budgets
from reconciler.approvals.in_force import Terms
from reconciler.approvals.judging import Judged
from reconciler.approvals.spent import BUDGETS, Use, read_spent, uses_of_plan
from reconciler.core.diagnostics import has_errors
from reconciler.core.errors import Locked, Refused, StoreError
from reconciler.core.steps import Step
from reconciler.core.uses import Uses
from reconciler.execution.decisions import Content, remember
from reconciler.execution.run import Reserve
from reconciler.project.project import Project
from reconciler.state.store import WHOLE_STATE, Lease


@asynccontextmanager
async def reserved(
    project: Project, terms: Terms, lease: Lease, run: str, judged: Judged
) -> AsyncIterator[Reserve]:
    """Reserve what a run will send, until the block ends. Raises Refused where a budget does not allow it.

    The value reserves more, before a call that the plan did not know. `judged`: under the run's `lease`.
    """
    reservation = _Reservation(project, terms, lease, run, judged)
    await reservation.begin()
    try:
        yield reservation.require
    finally:
        with anyio.CancelScope(shield=True):
            await reservation.end()


class _Reservation:
    """The parameters are those of `reserved`."""

    def __init__(self, project: Project, terms: Terms, lease: Lease, run: str, judged: Judged) -> None:
        self._project, self._terms, self._lease, self._run = project, terms, lease, run
        self._budgets, self._signed = judged.budgets, judged.overridden
        self._uses: dict[str, Use] = {}  # by step
        self._lock = anyio.Lock()

    async def begin(self) -> None:
        """Reserve what the plan says."""
        plan, records = self._terms.plan, self._terms.state.records
        scopes = {str(binding.address): binding.scope for binding in plan.bindings}
        scopes |= {str(address): record.scope for address, record in records.items()}
        own = uses_of_plan(plan, self._run, self._project.by.actor)
        first = self._lease.scopes[0]
        await self._reserve([replace(use, scope=scopes.get(use.address, first)) for use in own])

    async def require(self, step: Step, uses: Uses) -> None:
        """Reserve the call of `step`, unless as much is reserved. Raises Refused, Locked and StoreError."""
        async with self._lock:
            known = self._uses.get(step.id)
            if known is not None and all(known.uses.get(line) == used for line, used in uses.items()):
                return
            parent, _, _ = step.id.rpartition("[")
            of_step = known or self._uses.get(parent) or next(iter(self._uses.values()))
            new = replace(
                of_step, step=step.id, address=str(step.address), path=str(step.call.path), uses=uses
            )
            others = [use for id, use in self._uses.items() if id not in (step.id, parent)]
            await self._reserve([*others, new])

    async def end(self) -> None:
        """Reserve nothing any more: the journal has what was sent."""
        project = self._project
        try:
            await remember(project.store, project.actor(), BUDGETS, self._with, self._lease)
        except (Locked, StoreError) as failure:
            left = "what this run reserved counts until the next apply about the same"
            project.reporter.note(f"{left}: {failure.message}")

    async def _reserve(self, own: Sequence[Use]) -> None:
        """Replace what this run has reserved. Raises Refused, and changes nothing, where that is too much."""
        project, environment = self._project, self._terms.plan.context.environment
        async with AsyncExitStack() as stack:
            whole = self._lease
            if WHOLE_STATE not in whole.scopes:
                actor = project.actor().for_a_note(project.store)
                whole = await stack.enter_async_context(actor.leased(project.store, {WHOLE_STATE}))
            spent, now = await read_spent(project, self._budgets), project.clock.now()
            found = judge_budgets(self._budgets, own, spent, self._lease.scopes, environment, now)
            problems = [finding.diagnostic(self._signed, asks=False) for finding in found]
            if has_errors(problems):
                raise Refused("this is more than a budget allows; it was not sent", problems)
            await remember(project.store, project.actor(), BUDGETS, partial(self._with, own=own), whole)
        self._uses = {use.step: use for use in own}

    def _with(self, note: Content, own: Sequence[Use] = ()) -> Content:
        """`note` with `own` in the place of what this run reserved.

        Without what others reserved in the scopes that it holds: they cannot send it any more.
        """
        others = [use for use in note.get("reserved", ()) if use["run"] != self._run]
        kept = [use for use in others if use["scope"] not in self._lease.scopes]
        left = [*kept, *map(to_builtins, _summed(own))]
        return {"reserved": left} if left else {}


def _summed(uses: Sequence[Use]) -> Sequence[Use]:
    """`uses`, with one for all calls of a scope that use nothing else: a plan may have very many."""
    plain = [use for use in uses if use.uses.keys() == {"calls"}]
    of_scopes = Counter(use.scope for use in plain)
    blank = [replace(use, step="", address="", path="") for use in plain[:1]]
    sums = [replace(blank[0], scope=scope, uses={"calls": count}) for scope, count in of_scopes.items()]
    return [*sums, *(use for use in uses if use.uses.keys() != {"calls"})]
