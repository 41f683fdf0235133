"""Carries a plan out: under its leases, once everything is found as the plan saw it.

Before the first call the state is loaded again, the approvals are judged again, and exactly the objects that
the plan relies on are read again. Then the run is journaled, and the executor sends the calls. Afterwards
the end is journaled, and everything that only a person can settle is reported.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from types import MappingProxyType
from typing import Any

import anyio
from msgspec import Struct, field

from reconciler.approvals.creates import use_up_answers
from reconciler.approvals.in_force import Terms, remember_begun
from reconciler.approvals.judging import NOTHING, Given, Judged, judge
from reconciler.approvals.windows import Windows
from reconciler.core.diagnostics import Diagnostic, has_errors
from reconciler.core.errors import Refused, StoreError
from reconciler.core.model import Action, Address, Observation, Owed, Resource
from reconciler.core.steps import RUN_BEGAN, OutputRef, Plan, Read, Result, SecretRef
from reconciler.execution.executor import Executor
from reconciler.execution.open_intents import describe, parse_intent
from reconciler.execution.outputs import Outputs
from reconciler.execution.recorder import Recorder
from reconciler.execution.run import Run
from reconciler.kinds import find_kinds
from reconciler.moves.records import carried_out
from reconciler.planning.conflicts import Siblings, bad_records
from reconciler.planning.decide import inferred_warning
from reconciler.project.gather import read_siblings
from reconciler.project.identity import remember_platform
from reconciler.project.preconditions import (
    reads_again,
    refuse_moved,
    refuse_recorded_elsewhere,
    refuse_while_unknown,
    still_there,
    takes_over,
)
from reconciler.project.project import Project, read_all
from reconciler.project.scopes import needed_scopes
from reconciler.secrets.sensitive import Sensitive
from reconciler.services.registry import Budget, rate_key
from reconciler.state.store import WHOLE_STATE, State


class Applied(Struct, frozen=True):
    """A plan and what became of it. `declined`: a person said no, and nothing was sent.

    `notices`: what only a person can say about calls whose outcome is unknown, and what was inferred.
    `head`: of the state afterwards (`chain.state_head`); "" where it cannot be read. `run`: its id in the
    journal. `budget`: of the requests, as far as they were known before.
    """

    plan: Plan
    results: Sequence[Result] = ()
    owed: tuple[Owed, ...] = ()
    declined: bool = False
    interrupted: bool = False
    notices: tuple[Diagnostic, ...] = ()
    head: str = ""
    run: str = ""
    budget: Budget = field(default_factory=Budget)


async def run_plan(
    project: Project,
    plan: Plan,
    *,
    approved_deletes: Collection[str],
    given: Given = NOTHING,
    resources: Mapping[Address, Resource] = MappingProxyType({}),
    on_executor: Callable[[Executor], None] = lambda executor: None,
) -> Applied:
    """Carry `plan` out under its scopes' leases. Raises Refused, before any call, if anything moved.

    `given`: approvals that it uses up. `resources`: what the manifests declare.
    """
    scopes = needed_scopes(plan, (await project.store.load()).records, resources) or {WHOLE_STATE}
    async with project.actor().leased(project.store, scopes) as lease, AsyncExitStack() as ends:
        before, judged = await _still_allowed(project, plan, resources, given)
        began = project.clock.now()
        state, observed = await _as_planned(project, plan, before)
        await remember_platform(project, lease, state)
        terms = Terms(project.authority, resources, state, plan)
        await remember_begun(project, terms, lease)
        await use_up_answers(project, plan, state, lease)
        windows = Windows(terms, judged.overridden & {*given.now})
        run = project.new_id()
        reserve = None
        if judged.budgets:
            from reconciler.approvals.reserving import reserved  # few projects have budgets

            reserve = await ends.enter_async_context(reserved(project, terms, lease, run, judged))
        recorder = Recorder(project.store, lease, run, project.clock, before.records, by=project.by)
        used = [approval.to_json() for approval in judged.counting]
        await recorder.start(plan, observed, used, given.plan)
        executor = Executor(
            Run(
                plan,
                services=project.services,
                recorded=state.records,
                approved_deletes=approved_deletes,
                resources=resources,
                capabilities=project.capabilities,
                recorder=recorder,
                observed=observed,
                outputs=_known_outputs(plan, state, observed, began),
                read_secret=_secrets_read_once(project),
                fingerprint_key=await project.store.fingerprint_key(),
                clock=project.clock,
                reporter=project.reporter,
                limits=project.limits,
                closed=windows.why_not,
                reserve=reserve,
            )
        )
        on_executor(executor)
        sure = [step for step in plan.steps if step.mutates and step.guard is None and step.for_each is None]
        calls = [step.call for step in sure]  # sent if nothing goes wrong
        keys = [rate_key(project.services, call.service, call.method, call.path) for call in calls]
        if warning := project.budget.add(project.services, keys):
            project.reporter.note(warning)
        results = await executor.run()
        with anyio.CancelScope(shield=True):
            try:
                await recorder.finish(results, interrupted=executor.stopping)
            except StoreError as failure:
                # Each outcome is recorded, spooled or reported in the results.
                project.reporter.failed("the end of this run could not be recorded", failure.message)
        adopted = [
            Result(change.address, f"{change.address}#{change.action}", "done", change.id)
            for change in plan.changes
            if change.action in (Action.ADOPT, Action.FORGET)
        ]
        doubts = _doubts(plan, state, recorder, resources)
        return Applied(
            plan,
            (*adopted, *results),
            windows.dated(recorder.owed(), project.clock.now()),
            interrupted=executor.stopping,
            notices=(*executor.notices(), *doubts, *await _questions(project, results)),
            run=run,
            budget=project.budget,
        )


# --- before the first call ---


async def _still_allowed(
    project: Project, plan: Plan, resources: Mapping[Address, Resource], given: Given
) -> tuple[State, Judged]:
    """The state under the leases, and the approvals that count. Raises Refused where one no longer does."""
    state = await project.store.load()
    if plan.context.lineage != state.lineage:
        raise Refused("this plan was made for another state", help="check --state, or make a new plan")
    judged = await judge(project, Terms(project.authority, resources, state, plan), given)
    if has_errors(judged.problems):
        raise Refused(
            "an approval does not count any more, or is missing; nothing was changed", judged.problems
        )
    return state, judged


async def _as_planned(project: Project, plan: Plan, state: State) -> tuple[State, Mapping[Read, Observation]]:
    """The state with the plan's moves, and the objects as they are now. Raises Moved where they differ."""
    refuse_while_unknown(plan, state)
    recorded = state.records
    if len(still_there(plan, recorded)) == len(plan.moves):
        state = dataclasses.replace(state, records=carried_out(find_kinds(), plan.moves, recorded))
    siblings = await read_siblings(project.environments) if takes_over(plan, state) else Siblings()
    refuse_recorded_elsewhere(plan, state, siblings)
    observed: dict[Read, Observation] = {}
    await read_all(project, reads_again(plan), observed.__setitem__)
    refuse_moved(plan, state, observed)
    return state, observed


def _known_outputs(
    plan: Plan, state: State, observed: Mapping[Read, Observation], began: datetime
) -> Outputs:
    """The values that steps may refer to before any answer: of the state, the run, and live objects."""
    outputs = Outputs()
    outputs.put("state", {"lineage": state.lineage})
    outputs.put(RUN_BEGAN.source, {RUN_BEGAN.path: f"{began:%Y-%m-%dT%H:%M:%SZ}"})
    for source, read in plan.inputs:
        record = state.records.get(Address.parse(source))
        for item in observed[read].objects:
            if record is None or item.id == record.id:
                outputs.put(source, item.model_dump())
    return outputs


def _secrets_read_once(project: Project) -> Callable[[SecretRef, Callable[[OutputRef], Any]], Sensitive]:
    """Reads secret values. A second look gives the first value: what is fingerprinted is what was sent."""
    secrets: dict[SecretRef, Sensitive] = {}

    def read_secret(ref: SecretRef, output: Callable[[OutputRef], Any]) -> Sensitive:
        """The value of `ref`, from its source or from the first look."""
        if ref not in secrets:
            secrets[ref] = project.sources.value(ref, output)
        return secrets[ref]

    return read_secret


# --- after the last call ---


def _doubts(
    plan: Plan, state: State, recorder: Recorder, resources: Mapping[Address, Resource]
) -> Iterator[Diagnostic]:
    """The ids that this run has recorded and that cannot be used, and those that it has inferred."""
    acted = {step.address for step in plan.steps}
    made = {address: record for address, record in recorder.records.items() if address in acted}
    yield from bad_records(find_kinds(), made, resources).values()
    for address, record in recorder.records.items():
        before = state.records.get(address)
        if record.inferred and not (before is not None and before.inferred):
            yield inferred_warning(record)


async def _questions(project: Project, results: Sequence[Result]) -> tuple[Diagnostic, ...]:
    """One per call that no later run will settle, repeat, or look for as this one did not."""
    unknown = {result.address: result for result in results if result.outcome == "unknown"}
    if not unknown:
        return ()
    found = []
    for entry in (await project.store.load()).open_intents:
        result = unknown.get(entry.address) if entry.address is not None else None
        if result is not None:
            intent = parse_intent(entry)
            if intent.if_unknown == "ask" or (intent.if_unknown == "find" and result.undecided):
                found.append(describe(entry, intent, result.error))
    return tuple(found)
