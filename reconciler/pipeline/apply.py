"""Applying: a plan is shown, approved, found to be still true, and carried out."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from reconciler.core.advice import command
from reconciler.core.diagnostics import Diagnostic, error, has_errors
from reconciler.core.errors import NoSuchService, Refused, SecretUnavailable, StoreError
from reconciler.core.model import Action, Address, Observation, Owed, Resource, StateRecord
from reconciler.core.steps import Move, OutputRef, Plan, Read, Result, SecretRef
from reconciler.execution.executor import Executor
from reconciler.execution.leasing import leased
from reconciler.execution.open_intents import describe, parse_intent, settle_open
from reconciler.execution.outputs import Outputs
from reconciler.execution.own_calls import Grounds, OwnCalls
from reconciler.execution.recorder import Recorder
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import owner_of
from reconciler.moves.carry_out import moved_records
from reconciler.moves.records import carried_out
from reconciler.pipeline.identity import require_state
from reconciler.pipeline.plan import PROVIDE_HELP, concerned_scopes, make_plan
from reconciler.pipeline.project import Desired, Project, read_all
from reconciler.planning.decide import inferred_warning
from reconciler.planning.fingerprint import digest_now
from reconciler.secrets.sensitive import Sensitive
from reconciler.services.registry import providers_of
from reconciler.state.store import WHOLE_STATE, Lease, State

PLANS_AFTER_WAITING = 3  # so often an apply that waits for its turn makes its plan


@dataclass(frozen=True, slots=True)
class Applied:
    """A plan and what became of it. `declined`: a person said no, and nothing was sent.

    `notices`: what only a person can say about calls whose outcome is unknown, and what was inferred.
    """

    plan: Plan
    results: Sequence[Result] = ()
    owed: tuple[Owed, ...] = ()
    declined: bool = False
    interrupted: bool = False
    notices: tuple[Diagnostic, ...] = ()


async def apply(
    project: Project,
    desired: Desired,
    *,
    approve: Callable[[Plan], bool],
    approved_deletes: Collection[str] = (),
    on_executor: Callable[[Executor], None] = lambda executor: None,
    tell: Callable[[Plan], None] = lambda plan: None,
) -> Applied:
    """Plan, ask, run. Raises Refused when the plan may not run as it is; then nothing was sent.

    `tell`: called with a plan that nobody has to approve, before anything of it is written. Who waits for a
    lease (`lock_timeout_s`) finds the work of the one before: then it plans again, and asks.
    """
    for again in reversed(range(PLANS_AFTER_WAITING if project.lock_timeout_s else 1)):
        try:
            return await _plan_and_run(
                project,
                desired,
                approve=approve,
                approved_deletes=approved_deletes,
                on_executor=on_executor,
                tell=tell,
            )
        except Moved as moved:
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
    on_executor: Callable[[Executor], None],
    tell: Callable[[Plan], None],
) -> Applied:
    await require_state(project)
    project.sources.runs_programs = True
    undecided = await settle_open(
        project.store,
        services=project.services,
        clock=project.clock,
        reporter=project.reporter,
        limits=project.limits,
        holder=project.holder,
        timeout_s=project.lock_timeout_s,
        concerned=partial(concerned_scopes, desired),
    )
    plan = await make_plan(project, desired, undecided=undecided)
    refuse_unless_runnable(plan, approved_deletes)
    if plan.steps or any(change.action is Action.ADOPT for change in plan.changes):
        approved = approve(plan)
        if not isinstance(approved, bool):  # an `async def` answers with a coroutine, which is true
            raise TypeError(f"`approve` must answer True or False, not {type(approved).__name__}")
        if not approved:
            return Applied(plan, declined=True, owed=plan.owed)
    else:
        tell(plan)
        forgets = any(change.action is Action.FORGET for change in plan.changes)
        if not plan.bindings and not plan.moves and not forgets:
            return Applied(plan, owed=plan.owed)
    return await run_plan(
        project,
        plan,
        approved_deletes=approved_deletes,
        resources=desired.by_address,
        on_executor=on_executor,
    )


def refuse_unless_runnable(plan: Plan, approved_deletes: Collection[str]) -> None:
    """All or nothing: a plan with a refused change or an unapproved delete sends no call at all.

    Raises TypeError for `approved_deletes` that is one text: any part of it would approve.
    """
    if isinstance(approved_deletes, str):
        raise TypeError("`approved_deletes` must be a collection of addresses, not one text")
    planned = {change.address: change for change in plan.changes}
    deleting = [change.address for change in plan.changes if change.action is Action.DELETE]
    # What a call does decides, not what its change says.
    deleting += [each.address for each in plan.steps if each.call.method == "DELETE" or each.effect.removes]
    unapproved = [
        error(
            "delete-not-approved",
            f"`{address}` ({planned[address].id}) would be deleted: {planned[address].reason}"
            if address in planned
            else f"`{address}` would be deleted",
            help=f"if that is meant, pass --approve-delete {address.quoted}",
        )
        for address in dict.fromkeys(deleting)
        if str(address) not in approved_deletes
    ]
    if unapproved or has_errors(plan.diagnostics):
        raise PlanRefused(plan, (*plan.diagnostics, *unapproved))


class Moved(Refused):
    """An object or a record is not as the plan saw it. Nothing was sent. `what`: in a few words."""

    def __init__(self, what: str, diagnostics: Sequence[Diagnostic]) -> None:
        super().__init__(f"{what}; nothing was changed", diagnostics)
        self.what = what


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
    resources: Mapping[Address, Resource] = MappingProxyType({}),
    on_executor: Callable[[Executor], None] = lambda executor: None,
) -> Applied:
    """Carry `plan` out under its scopes' leases. Raises Refused, before any call, if anything moved.

    And if it would send what is not its own (see `OwnCalls`). `resources`: what the manifests declare.
    """
    records = (await project.store.load()).records
    touched = {step.address for step in plan.steps}
    touched |= {change.address for change in plan.changes if change.action is Action.FORGET}
    scopes = {binding.scope for binding in plan.bindings}
    scopes |= {record.scope for record in moved_records(_still_there(plan, records), records)[0].values()}
    scopes |= {records[address].scope for address in touched if address in records}
    async with leased(
        project.store,
        scopes or {WHOLE_STATE},
        project.holder,
        timeout_s=project.lock_timeout_s,
        reporter=project.reporter,
    ) as lease:
        return await _run_under(project, plan, lease, approved_deletes, resources, on_executor)


async def _run_under(
    project: Project,
    plan: Plan,
    lease: Lease,
    approved_deletes: Collection[str],
    resources: Mapping[Address, Resource],
    on_executor: Callable[[Executor], None],
) -> Applied:
    state = await project.store.load()
    refuse_unless_current(plan, state)
    _refuse_while_unknown(plan, state)
    recorded = state.records
    if len(_still_there(plan, recorded)) == len(plan.moves):
        state = replace(state, records=carried_out(find_kinds(), plan.moves, recorded))
    _refuse_recorded_elsewhere(plan, state)
    observed: dict[Read, Observation] = {}
    outputs = Outputs()
    outputs.put("state", {"lineage": state.lineage})
    grounds = Grounds(
        project.clock.now(),
        state.records,
        observed,
        project.capabilities,
        resources,
        frozenset(approved_deletes),
        outputs,
    )
    own = OwnCalls(plan, grounds)
    _refuse_foreign(own.foreign_reads())
    await read_all(project, _reads_again(plan, own), observed.__setitem__)
    moved = _moved(plan, state, observed)
    if moved:
        raise Moved(
            "the plan is stale: objects changed since it was made",
            [
                error("moved", f"`{address}` {how}", help="make a new plan and look at it again")
                for address, how in moved.items()
            ],
        )
    _refuse_foreign(own.foreign_calls())
    if project.sources.prepare(_secrets_of(plan)):
        await checkpoint()  # where a signal that ended a program is acted upon
    unreadable = _unreadable_sources(project, plan)
    if unreadable:
        raise Refused("what the calls need is not readable here; nothing was changed", unreadable)
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

    recorder = Recorder(project.store, lease, project.new_id(), project.clock, recorded)
    await recorder.start(plan)
    executor = Executor(
        plan,
        services=project.services,
        own=own,
        recorder=recorder,
        observed=observed,
        outputs=outputs,
        read_secret=read_secret,
        fingerprint_key=await project.store.fingerprint_key(),
        clock=project.clock,
        reporter=project.reporter,
        limits=project.limits,
    )
    on_executor(executor)
    results = await executor.run()
    with anyio.CancelScope(shield=True):
        try:
            await recorder.finish()
        except StoreError as failure:
            # Each outcome is recorded, kept aside or reported in the results.
            project.reporter.note(f"the end of this run could not be recorded: {failure.message}")
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
    return Applied(
        plan,
        (*adopted, *results),
        recorder.owed(),
        interrupted=executor.stopping,
        notices=(*executor.notices(), *inferred, *await _questions(project, results)),
    )


async def _questions(project: Project, results: Sequence[Result]) -> tuple[Diagnostic, ...]:
    """One per call that no later run will settle, repeat or find out about by itself."""
    unknown = {result.address: result.error for result in results if result.outcome == "unknown"}
    if not unknown:
        return ()
    opened = [entry for entry in (await project.store.load()).open_intents if entry.address in unknown]
    return tuple(
        describe(entry, intent, unknown[entry.address])
        for entry in opened
        if entry.address is not None and (intent := parse_intent(entry)).if_unknown != "repeat"
    )


def refuse_unless_current(plan: Plan, state: State) -> None:
    if plan.id in state.plans_run:
        anew = command("plan")
        raise Refused(
            "this plan was already applied: a plan runs once",
            help=f"make a new one with `{anew}`",
            advice=(anew,),
        )
    if plan.context.lineage != state.lineage:
        raise Refused("this plan was made for another state", help="check --state, or make a new plan")


def _refuse_while_unknown(plan: Plan, state: State) -> None:
    """A call that is open: to send it again could make its object twice.

    Nor may anything rely on what it may have made: a plan looks once, and only an apply settles.
    """
    touched = {step.address for step in plan.steps}
    touched |= {Address.parse(source) for source, _ in plan.inputs}
    touched |= {binding.address for binding in plan.bindings}
    _refuse_moves_of_open_calls(plan, state)
    unknown = [
        describe(opened, intent, "it was sent after this plan was made")
        for opened in state.open_intents
        if opened.address in touched and (intent := parse_intent(opened)).if_unknown != "repeat"
    ]
    if unknown:
        raise Refused("a call's outcome is unknown; nothing was changed", unknown)


def _refuse_recorded_elsewhere(plan: Plan, state: State) -> None:
    """One object has one address: another run may have recorded it since, also in another scope."""
    kinds = find_kinds()
    recorded: dict[str, list[StateRecord]] = defaultdict(list)
    for known in state.records.values():
        recorded[known.id].append(known)
    for binding in plan.bindings:
        if binding.id is None or binding.address in state.records:
            continue
        record = StateRecord(
            binding.address, binding.id, binding.scope, binding.applied, binding.lifecycle, plan.context.at
        )
        owner = owner_of(kinds, record, recorded[record.id])
        if owner is not None:
            raise Moved(
                "the plan is stale: an object was recorded since it was made",
                [
                    error(
                        "moved",
                        f"`{binding.address}` would adopt {binding.id}, which is recorded as `{owner}` now",
                        help="make a new plan and look at it again",
                    )
                ],
            )


def _secrets_of(plan: Plan) -> list[SecretRef]:
    values = [value for step in plan.steps for value in (step.call.body or {}).values()]
    return [value for value in values if isinstance(value, SecretRef)]


def _still_there(plan: Plan, records: Mapping[Address, StateRecord]) -> list[Move]:
    """The moves that can be carried out with `records` as they are."""
    return [
        move
        for move in plan.moves
        if move.source in records
        and records[move.source].serial == move.serial
        and move.target not in records
    ]


def _refuse_moves_of_open_calls(plan: Plan, state: State) -> None:
    """A call is settled by its address: also one that may be repeated, before the record moves away."""
    moving = {address for move in plan.moves for address in (move.source, move.target)}
    for opened in state.open_intents:
        if opened.address in moving:
            apply = command("apply")
            raise Refused(
                f"`{opened.address}` cannot move: the outcome of a call is unknown; nothing was changed",
                help=f"run `{apply}` without a saved plan, which settles it first",
                advice=(apply,),
            )


def _unreadable_sources(project: Project, plan: Plan) -> list[Diagnostic]:
    """The secret sources that give no value here: found before the first call, not in the middle."""
    problems = []
    for name in providers_of(plan):
        try:
            project.services.of(name).check()
        except NoSuchService as missing:
            problems.append(
                error("unknown-provider", missing.message, help=missing.help, advice=missing.advice)
            )
        except SecretUnavailable as missing:
            problem = (
                f"the signing secret of ExtensionProvider/{name} is not readable here: {missing.message}"
            )
            problems.append(_unreadable(problem, missing))
    for step in plan.steps:
        if step.for_each is not None:
            continue
        for value in (step.call.body or {}).values():
            if isinstance(value, SecretRef):
                try:
                    project.sources.value(value, lambda ref: "not known yet")
                except SecretUnavailable as missing:
                    problem = f"`{step.address}`: source not readable here: {missing.message}"
                    problems.append(_unreadable(problem, missing))
    return problems


def _unreadable(problem: str, missing: SecretUnavailable) -> Diagnostic:
    return error("secret-source", problem, help=missing.help or PROVIDE_HELP, advice=missing.advice)


def _refuse_foreign(found: Iterable[Diagnostic]) -> None:
    foreign = list(found)
    if foreign:
        raise Refused("the plan holds what is not its own; nothing was changed", foreign)


def _reads_again(plan: Plan, own: OwnCalls) -> list[Read]:
    reads = [expected.read for expected in plan.expectations if expected.read is not None]
    reads += [read for _, read in plan.inputs]
    return list(dict.fromkeys([*reads, *own.adoption_reads()]))


def _moved(plan: Plan, state: State, observed: Mapping[Read, Observation]) -> dict[Address, str]:
    """The addresses that are not as the plan saw them, and how."""
    moved: dict[Address, str] = {}
    for move in plan.moves:
        record = state.records.get(move.target)
        if move.source in state.records or record is None or record.serial != move.serial:
            moved[move.source] = f"cannot become `{move.target}` any more: what is recorded changed meanwhile"
    for expected in plan.expectations:
        record = state.records.get(expected.address)
        if (record.serial if record is not None else 0) != expected.serial:
            moved[expected.address] = "was applied by somebody else meanwhile"
        elif expected.read is not None:
            now = observed[expected.read]
            if not now.complete:
                moved[expected.address] = f"cannot be read again: {now.problem}"
            elif digest_now(expected, now.objects) != expected.digest:
                moved[expected.address] = "changed on the platform since the plan was made"
    for source, read in plan.inputs:
        if not observed[read].complete:
            moved[Address.parse(source)] = f"cannot be read again: {observed[read].problem}"
    return moved
