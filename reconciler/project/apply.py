"""Applying: a plan is shown, approved, found to be still true, and carried out."""

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import anyio
from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.approvals.creates import (
    creates_to_approve,
    unapproved_creates,
    unmatched,
    use_up_answers,
)
from reconciler.approvals.in_force import Terms, remember_begun, remember_ended
from reconciler.approvals.judging import NOTHING, Given, Judged, judge, needed_by
from reconciler.core.diagnostics import IN_FLIGHT, Diagnostic, error, has_errors, refuse_all
from reconciler.core.errors import Refused, StoreError
from reconciler.core.model import Action, Address, Observation, Owed, Resource
from reconciler.core.steps import RUN_BEGAN, OutputRef, Plan, Read, Result, SecretRef
from reconciler.execution.executor import Executor
from reconciler.execution.intents import Intent
from reconciler.execution.leasing import leased
from reconciler.execution.open_intents import describe, load_with_holders, parse_intent
from reconciler.execution.outputs import Outputs
from reconciler.execution.recorder import Recorder
from reconciler.execution.run import Run
from reconciler.kinds import find_kinds
from reconciler.moves.records import carried_out
from reconciler.planning.conflicts import Siblings, bad_records
from reconciler.planning.decide import inferred_warning
from reconciler.planning.declared import Desired
from reconciler.planning.reviewed import PLAN_MOVED, as_reviewed
from reconciler.project.gather import read_siblings
from reconciler.project.identity import remember_platform, require_state
from reconciler.project.plan import make_plan
from reconciler.project.preconditions import (
    Moved,
    Overtaken,
    reads_again,
    refuse_moved,
    refuse_recorded_elsewhere,
    refuse_unless_current,
    refuse_while_unknown,
    still_there,
    takes_over,
)
from reconciler.project.project import Project, read_all, settle_left
from reconciler.project.scopes import concerned_scopes, needed_scopes, recorded_bindings
from reconciler.secrets.sensitive import Sensitive
from reconciler.services.budget import Budget, Line, line_of
from reconciler.state import files_of, has_files
from reconciler.state.chain import state_head
from reconciler.state.store import WHOLE_STATE, Lease, State

PLANS_AFTER_WAITING = 3  # so often an apply that waits for its turn makes its plan


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


async def with_head(project: Project, applied: Applied) -> Applied:
    """What was applied, with the state's head. What was done counts, also where that cannot be read."""
    try:
        state = await project.store.load()
    except StoreError:
        return applied
    return replace(applied, head=state_head(state.lineage, state.heads))


async def apply(
    project: Project,
    desired: Desired,
    *,
    approve: Callable[[Plan], bool],
    approved_deletes: Collection[str] = (),
    approved_creates: Collection[str] = (),
    on_executor: Callable[[Executor], None] = lambda executor: None,
    tell: Callable[[Plan], None] = lambda plan: None,
    reviewed: Plan | None = None,
    given: Given = NOTHING,
) -> Applied:
    """Plan, ask, run. Raises Refused when the plan may not run as it is; then nothing was sent.

    `tell`: called with a plan that nobody has to approve, before anything of it is written. Who waits for a
    lease (`lock_timeout_s`) finds the work of the one before: then it plans again, and asks.
    `reviewed`: the plan of a file, with the approvals `given` for it: nothing runs that it does not name.
    """
    plan_and_run = partial(
        _plan_and_run,
        project,
        desired,
        approve=approve,
        approved_deletes=approved_deletes,
        approved_creates=approved_creates,
        on_executor=on_executor,
        tell=tell,
        reviewed=reviewed,
        given=given,
    )
    for again in reversed(range(PLANS_AFTER_WAITING if project.lock_timeout_s else 1)):
        try:
            while (applied := await plan_and_run()) is None:
                pass
            return await with_head(project, applied)
        except (Moved, Overtaken) as moved:
            if not again:
                raise
            project.reporter.note(f"{moved.what}: planning again")
    raise AssertionError("the last attempt returns or raises")


async def _plan_and_run(
    project: Project,
    desired: Desired,
    *,
    approve: Callable[[Plan], bool],
    approved_deletes: Collection[str],
    approved_creates: Collection[str],
    on_executor: Callable[[Executor], None],
    tell: Callable[[Plan], None],
    reviewed: Plan | None,
    given: Given,
) -> Applied | None:
    """None: the plan can run, and its state was of an older version; that is migrated: plan again."""
    state = await require_state(project)
    project.sources.runs_programs = True
    wanted = approved_deletes
    if reviewed is not None:  # whether these are approved is judged below
        wanted = {*wanted, *map(str, reviewed.deletes)}
    plan, state = await _settled_plan(project, desired, state, wanted)
    if reviewed is not None:
        plan = as_reviewed(reviewed, plan, desired.by_address, state.records)
        if any(each.code == PLAN_MOVED for each in plan.diagnostics):
            raise PlanRefused(plan, plan.diagnostics)
    judged = await refuse_unless_runnable(
        project, desired, plan, state, approved_deletes, approved_creates, given
    )
    if has_files(project.store) and await files_of(project.store).migrate():
        return None
    if judged.counting:
        approved_deletes = {*approved_deletes, *map(str, plan.deletes)}
    plan = replace(plan, diagnostics=(*plan.diagnostics, *judged.problems))
    terms = Terms(project.authority, desired.by_address, state, plan)
    if plan.steps or any(change.action is Action.ADOPT for change in plan.changes):
        approved = approve(plan)
        if not isinstance(approved, bool):  # an `async def` answers with a coroutine, which is true
            raise TypeError(f"`approve` must answer True or False, not {type(approved).__name__}")
        if not approved:
            return Applied(plan, declined=True, owed=plan.owed, budget=project.budget)
    else:
        tell(plan)
        forgets = any(change.action is Action.FORGET for change in plan.changes)
        writes = plan.moves or forgets or judged.counting  # an approval is used up
        if not recorded_bindings(plan, desired.by_address) and not writes:
            await remember_ended(project, desired, terms)
            return Applied(plan, owed=plan.owed, budget=project.budget)
    try:
        applied = await run_plan(
            project,
            plan,
            approved_deletes=approved_deletes,
            given=given,
            resources=desired.by_address,
            on_executor=on_executor,
        )
    except Moved:
        now = (await project.store.load()).heads
        changed = sorted(scope for scope in now if now[scope] != state.heads.get(scope))
        if changed:
            raise Overtaken(changed[-1]) from None
        raise
    await remember_ended(project, desired, terms, applied.results)
    return applied


async def _settled_plan(
    project: Project, desired: Desired, state: State, approved_deletes: Collection[str]
) -> tuple[Plan, State]:
    """A plan that knows what became of the calls before it, and the state it knows. `state`: as it stands.

    Where another run sends one meanwhile, that is waited for, or settled, like what was open before: else
    the plan would leave it out. Raises Locked, as `settle_open`.
    """
    for again in reversed(range(PLANS_AFTER_WAITING)):
        scopes = {parse_intent(opened).scope for opened in state.open_intents}
        holders = await project.store.holders(scopes) if scopes else {}
        undecided = await settle_left(project, state, partial(concerned_scopes, desired, holders=holders))
        found = await load_with_holders(project.store)
        plan = await make_plan(
            project, desired, undecided=undecided, approved_deletes=approved_deletes, found=found
        )
        under_way = [each for each in plan.diagnostics if each.code == IN_FLIGHT]
        if not under_way:
            return plan, found[0]
        if not again:
            for held in holders.values():
                raise held
            raise Moved("other runs send calls while this one plans", under_way)
        state = found[0]
    raise AssertionError("the last attempt returns or raises")


async def refuse_unless_runnable(
    project: Project,
    desired: Desired,
    plan: Plan,
    state: State,
    approved_deletes: Collection[str],
    approved_creates: Collection[str],
    given: Given = NOTHING,
) -> Judged:
    """All or nothing: a plan with an error, or without an approval it needs, sends no call at all.

    Except where the error only holds the addresses that it is about, and there is more to do. Nor does one
    with an approval that matches nothing. Returns what became of the approvals that were `given`: those that
    count also cover the plan's deletes and creates.
    Raises TypeError for approvals that are one text: any part of it would approve.
    """
    creates = creates_to_approve(plan, state, desired.by_address, project.capabilities)
    judged = await judge(project, plan, state, desired.by_address, given)
    asked = needed_by(project.authority, plan, state, desired.by_address)
    waiting = {address for each in asked for address in each.addresses}
    uncovered = [
        *_unapproved_deletes(plan, approved_deletes, waiting),
        *unapproved_creates({*creates} - waiting, approved_creates, plan.context.word),
    ]
    known = {*desired.by_address, *state.records}
    unapproved = [
        *(judged.problems if has_errors(judged.problems) else ()),
        *(uncovered if not judged.counting else ()),
        *await unmatched(project, plan, known, approved_deletes, approved_creates),
    ]
    idle = not plan.steps and not any(change.action.changes_something for change in plan.changes)
    if unapproved or refuse_all(plan.diagnostics) or (idle and has_errors(plan.diagnostics)):
        raise PlanRefused(plan, (*plan.diagnostics, *unapproved))
    return judged


def _unapproved_deletes(
    plan: Plan, approved_deletes: Collection[str], waiting: Collection[Address]
) -> list[Diagnostic]:
    """`waiting`: for people, whose approval is this one, too."""
    if isinstance(approved_deletes, str):
        raise TypeError("`approved_deletes` must be a collection of addresses, not one text")
    planned = {change.address: change for change in plan.changes}
    return [
        error(
            "delete-not-approved",
            f"`{address}` ({planned[address].id}) would be deleted: {planned[address].reason}"
            if address in planned
            else f"`{address}` would be deleted",
            help=f"if this is intended, pass --approve-delete {address.quoted}",
            about=(address,),
        )
        for address in plan.deletes
        if str(address) not in approved_deletes and address not in waiting
    ]


class PlanRefused(Refused):
    """Carries the plan, so that a person sees what was refused."""

    def __init__(self, plan: Plan, diagnostics: Sequence[Diagnostic]) -> None:
        super().__init__("the plan is refused; nothing was changed", diagnostics)
        self.plan = plan


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
    records = (await project.store.load()).records
    async with leased(
        project.store,
        needed_scopes(plan, records, resources) or {WHOLE_STATE},
        project.holder,
        timeout_s=project.lock_timeout_s,
        reporter=project.reporter,
    ) as lease:
        return await _run_under(project, plan, lease, approved_deletes, given, resources, on_executor)


async def _run_under(
    project: Project,
    plan: Plan,
    lease: Lease,
    approved_deletes: Collection[str],
    given: Given,
    resources: Mapping[Address, Resource],
    on_executor: Callable[[Executor], None],
) -> Applied:
    state = await project.store.load()
    refuse_unless_current(plan, state)
    judged = await judge(project, plan, state, resources, given)
    if has_errors(judged.problems):
        raise Refused(
            "an approval does not count any more, or is missing; nothing was changed", judged.problems
        )
    refuse_while_unknown(plan, state)
    recorded = state.records
    if len(still_there(plan, recorded)) == len(plan.moves):
        state = dataclasses.replace(state, records=carried_out(find_kinds(), plan.moves, recorded))
    siblings = await read_siblings(project.environments) if takes_over(plan, state) else Siblings()
    refuse_recorded_elsewhere(plan, state, siblings)
    observed: dict[Read, Observation] = {}
    outputs = Outputs()
    outputs.put("state", {"lineage": state.lineage})
    outputs.put(RUN_BEGAN.source, {RUN_BEGAN.path: f"{project.clock.now():%Y-%m-%dT%H:%M:%SZ}"})
    await read_all(project, reads_again(plan), observed.__setitem__)
    refuse_moved(plan, state, observed)
    for source, read in plan.inputs:
        record = state.records.get(Address.parse(source))
        for item in observed[read].objects:
            if record is None or item.id == record.id:
                outputs.put(source, item.model_dump())
    secrets: dict[SecretRef, Sensitive] = {}

    def read_secret(ref: SecretRef, output: Callable[[OutputRef], Any]) -> Sensitive:
        # Read once: what is fingerprinted must be what was sent.
        if ref not in secrets:
            secrets[ref] = project.sources.value(ref, output)
        return secrets[ref]

    await remember_platform(project, lease, state)
    await remember_begun(project, Terms(project.authority, resources, state, plan), lease)
    await use_up_answers(project, plan, state, lease)
    run = project.new_id()
    recorder = Recorder(project.store, lease, run, project.clock, recorded, by=project.by)
    await recorder.start(plan, observed, [each.to_json() for each in judged.counting], given.plan)
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
            outputs=outputs,
            read_secret=read_secret,
            fingerprint_key=await project.store.fingerprint_key(),
            clock=project.clock,
            reporter=project.reporter,
            limits=project.limits,
        )
    )
    on_executor(executor)
    if told := project.budget.add(project.services, _lines_of(project, plan)):
        project.reporter.note(told)
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
    inferred = [
        inferred_warning(record)
        for address, record in recorder.records.items()
        if record.inferred and not (address in state.records and state.records[address].inferred)
    ]
    acted = {step.address for step in plan.steps}
    made = {address: record for address, record in recorder.records.items() if address in acted}
    bad = bad_records(find_kinds(), made, resources).values()
    return Applied(
        plan,
        (*adopted, *results),
        recorder.owed(),
        interrupted=executor.stopping,
        notices=(*executor.notices(), *bad, *inferred, *await _questions(project, results)),
        run=run,
        budget=project.budget,
    )


def _lines_of(project: Project, plan: Plan) -> Iterator[Line]:
    """Of the calls that are surely sent if nothing goes wrong."""
    for step in plan.steps:
        if step.mutates and step.guard is None and step.for_each is None:
            yield line_of(project.services, step.call.service, step.call.method, step.call.path)


async def _questions(project: Project, results: Sequence[Result]) -> tuple[Diagnostic, ...]:
    """One per call that no later run will settle, repeat or find out about by itself."""
    unknown = {result.address: result for result in results if result.outcome == "unknown"}
    if not unknown:
        return ()
    return tuple(
        describe(entry, intent, unknown[entry.address].error)
        for entry in (await project.store.load()).open_intents
        if entry.address is not None
        and entry.address in unknown
        and _must_be_asked(intent := parse_intent(entry), unknown[entry.address])
    )


def _must_be_asked(intent: Intent, result: Result) -> bool:
    """Not about what the next run repeats, nor about what it looks for and this one did not."""
    return intent.if_unknown == "ask" or (intent.if_unknown == "find" and result.undecided)
