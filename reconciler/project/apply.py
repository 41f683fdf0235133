"""Applies: a plan is shown, approved, found to be still true, and carried out.

One attempt of an apply:

1. Calls that earlier runs left open are settled, and the plan is made (`_settled_plan`).
2. The plan of a file, if one is given, narrows it to what a person reviewed.
3. All approvals are judged, and a plan that may not run is refused (`_refuse_unless_runnable`).
4. A person is asked. Nothing has been written or sent until then.
5. The plan runs under its leases (`run_plan`), once everything is found as it was planned.

Where another run was faster at step 5, and the caller waits for locks, all of it is done again.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.approvals.creates import creates_to_approve, unapproved_creates, unmatched
from reconciler.approvals.in_force import Terms, remember_ended
from reconciler.approvals.judging import NOTHING, Given, Judged, judge, needed_by
from reconciler.approvals.windows import Windows
from reconciler.core.context import BASE
from reconciler.core.diagnostics import (
    IN_FLIGHT,
    NOT_RECOVERABLE,
    Diagnostic,
    addresses_of,
    error,
    has_errors,
    refuse_all,
)
from reconciler.core.errors import ReconcilerError, Refused, StoreError
from reconciler.core.model import Action, Address
from reconciler.core.steps import Plan
from reconciler.drills.results import declared_notes, not_recoverable, proofs, unproven
from reconciler.execution.decisions import remember_all
from reconciler.execution.executor import Executor
from reconciler.execution.open_intents import load_with_holders, parse_intent
from reconciler.planning.declared import Desired
from reconciler.planning.digest import origin, plan_digest
from reconciler.planning.reviewed import PLAN_MOVED, as_reviewed, made_elsewhere
from reconciler.planning.saved import SavedPlan, load_saved
from reconciler.project.files import read_file
from reconciler.project.identity import require_state
from reconciler.project.looks import Seen, notes_of, see
from reconciler.project.plan import make_plan
from reconciler.project.preconditions import Moved, Overtaken
from reconciler.project.project import Project, settle_left
from reconciler.project.run import Applied, run_plan
from reconciler.project.scopes import concerned_scopes, recorded_bindings
from reconciler.state import files_of
from reconciler.state.chain import state_head
from reconciler.state.store import State

PLANS_AFTER_WAITING = 3  # so often an apply that waits for its turn makes its plan


class PlanRefused(Refused):
    """Carries the plan, so that a person sees what was refused."""

    def __init__(self, plan: Plan, diagnostics: Sequence[Diagnostic]) -> None:
        super().__init__("the plan is refused; nothing was changed", diagnostics)
        self.plan = plan


async def apply(
    project: Project,
    desired: Desired,
    *,
    approve: Callable[[Plan], bool],
    approved_deletes: Collection[str] = (),
    approved_creates: Collection[str] = (),
    on_executor: Callable[[Executor], None] = lambda executor: None,
    tell: Callable[[Plan], None] = lambda plan: None,
    given: Given = NOTHING,
) -> Applied:
    """Plan, ask, run. Raises Refused when the plan may not run as it is; then nothing was sent.

    `tell`: called with a plan that nobody has to approve, before anything of it is written. A run that waits
    for a lease (`lock_timeout_s`) finds the work of the run before it: then it plans again, and asks.
    """
    said = (approve, approved_deletes, approved_creates, on_executor, tell, given)
    return await _Apply(project, desired, *said).done()


class _Apply(Struct, frozen=True):
    """One apply: what it is about, and what people say to it. The fields are the parameters of `apply`.

    `reviewed`: the plan of a file, with the approvals `given` for it: nothing runs that it does not name.
    `seen`: the objects as they were when it was planned.
    """

    project: Project
    desired: Desired
    approve: Callable[[Plan], bool]
    approved_deletes: Collection[str]
    approved_creates: Collection[str]
    on_executor: Callable[[Executor], None]
    tell: Callable[[Plan], None]
    given: Given
    reviewed: Plan | None = None
    seen: Seen = field(default_factory=dict)

    async def done(self) -> Applied:
        """Make attempts until one is carried out, declined or refused."""
        project = self.project
        for again in reversed(range(PLANS_AFTER_WAITING if project.lock_timeout_s else 1)):
            try:
                while (applied := await self.plan_and_run()) is None:
                    pass
                with suppress(StoreError):  # what was done counts, also where the state cannot be read
                    state = await self.remember(applied, await project.store.load())
                    applied = replace(applied, head=state_head(state.lineage, state.heads))
                return applied
            except (Moved, Overtaken) as moved:
                if not again:
                    raise
                project.reporter.note(f"{moved.what}: planning again")
        raise AssertionError("the last attempt returns or raises")

    async def plan_and_run(self) -> Applied | None:
        """Plan, ask, and run.

        None: the plan can run, but its state was of an older version, and is migrated now.
        """
        project, desired = self.project, self.desired
        state = await require_state(project)
        project.sources.runs_programs = True
        plan, state = await self._settled_plan(state)
        if self.reviewed is not None:
            plan = as_reviewed(self.reviewed, plan, desired.by_address, state.records)
            if any(problem.code == PLAN_MOVED for problem in plan.diagnostics):
                raise PlanRefused(plan, plan.diagnostics)
        judged = await self._refuse_unless_runnable(plan, state)
        files = files_of(project.store)
        if files is not None and await files.migrate():
            return None
        approved_deletes = self.approved_deletes
        if judged.counting:
            approved_deletes = {*approved_deletes, *map(str, plan.deletes)}
        plan = replace(plan, diagnostics=(*plan.diagnostics, *judged.problems))
        windows = Windows(self._terms(plan, state), judged.overridden & {*self.given.now})
        plan = windows.annotated()
        terms = self._terms(plan, state)
        if (left := windows.left(project.clock.now())) is not None:
            self.tell(plan)
            return Applied(plan, left, owed=plan.owed, budget=project.budget)
        if plan.steps or any(change.action is Action.ADOPT for change in plan.changes):
            approved = self.approve(plan)
            if not isinstance(approved, bool):  # an `async def` answers with a coroutine, which is true
                raise TypeError(f"`approve` must answer True or False, not {type(approved).__name__}")
            if not approved:
                return Applied(plan, declined=True, owed=plan.owed, budget=project.budget)
        else:
            self.tell(plan)
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
                given=self.given,
                resources=desired.by_address,
                on_executor=self.on_executor,
            )
        except Moved:
            now = (await project.store.load()).heads
            changed = sorted(scope for scope in now if now[scope] != state.heads.get(scope))
            if changed:
                raise Overtaken(changed[-1]) from None
            raise
        await remember_ended(project, desired, terms, applied.results)
        return applied

    async def remember(self, applied: Applied, state: State) -> State:
        """Keep what was seen, and which drills are declared. Returns the state afterwards.

        Only a run that went through all of the manifests forgets a drill.
        """
        project, desired, plan = self.project, self.desired, applied.plan
        if applied.declined or applied.interrupted or not state.lineage:
            return state
        is_part = bool(desired.targets or desired.focus is not None or desired.manifests.paths)
        failed = has_errors(plan.diagnostics) or any(done.outcome != "done" for done in applied.results)
        whole = not (is_part or failed or self._terms(plan, state).by_agent)
        notes = {**notes_of(self.seen), **declared_notes(desired, state, whole=whole)}
        try:
            written = await remember_all(project.store, project.actor(), notes, known=state)
            return await project.store.load() if written else state
        except ReconcilerError as failure:
            project.reporter.note(f"what was seen is not recorded: {failure.message}")
            return state

    async def _settled_plan(self, state: State) -> tuple[Plan, State]:
        """A plan that knows the outcomes of the calls before it, and the state that it was made by.

        `state`: as it was loaded just now. Where another run sends a call meanwhile, that is waited for, or
        settled, like the calls that were open before: else the plan would leave it out. Raises Locked, as
        `settle_open`.
        """
        project, desired, wanted = self.project, self.desired, self.approved_deletes
        if self.reviewed is not None:  # whether these are approved is judged once the plan is there
            wanted = {*wanted, *map(str, self.reviewed.deletes)}
        for again in reversed(range(PLANS_AFTER_WAITING)):
            scopes = {parse_intent(opened).scope for opened in state.open_intents}
            holders = await project.store.holders(scopes) if scopes else {}
            undecided = await settle_left(project, state, partial(concerned_scopes, desired, holders=holders))
            found = await load_with_holders(project.store)
            plan = await make_plan(
                project,
                desired,
                undecided=undecided,
                approved_deletes=wanted,
                found=found,
                on_answer=partial(see, self.seen),
            )
            under_way = [problem for problem in plan.diagnostics if problem.code == IN_FLIGHT]
            if not under_way:
                return plan, found[0]
            if not again:
                for held in holders.values():
                    raise held
                raise Moved("other runs send calls while this one plans", under_way)
            state = found[0]
        raise AssertionError("the last attempt returns or raises")

    async def _refuse_unless_runnable(self, plan: Plan, state: State) -> Judged:
        """All or nothing: a plan with an error, or without an approval it needs, sends no call at all.

        Except where the error only holds the addresses that it is about, and there is more to do. Nor does
        one with an approval that matches nothing. Returns what became of the approvals that were `given`:
        those that count also cover the plan's deletes and creates. Raises TypeError for approvals that are
        one text: any part of it would approve.
        """
        resources, terms = self.desired.by_address, self._terms(plan, state)
        creates = creates_to_approve(plan, state, resources, self.project.capabilities)
        judged = await judge(self.project, terms, self.given)
        waiting = {address for needed in needed_by(terms) for address in needed.addresses}
        missing = unproven(plan, proofs(self.desired.policies, self.desired.resources, state))
        told = self.reviewed.diagnostics if self.reviewed is not None and judged.counting else ()
        signed = addresses_of(NOT_RECOVERABLE, told)  # a drill may have failed since
        uncovered = [
            *_unapproved_deletes(plan, self.approved_deletes, waiting),
            *unapproved_creates({*creates} - waiting, self.approved_creates, plan.context.word),
        ]
        known = {*resources, *state.records}
        unapproved = [
            *(judged.problems if has_errors(judged.problems) else ()),
            *(uncovered if not judged.counting else ()),
            *(not_recoverable(proof, plan.context.at) for proof in missing if str(proof.of) not in signed),
            *Windows(terms).refused(self.given.now, judged.overridden, self.project.clock.now()),
            *await unmatched(self.project, plan, known, self.approved_deletes, self.approved_creates),
        ]
        idle = not plan.steps and not any(change.action.changes_something for change in plan.changes)
        if unapproved or refuse_all(plan.diagnostics) or (idle and has_errors(plan.diagnostics)):
            raise PlanRefused(plan, (*plan.diagnostics, *unapproved))
        return judged

    def _terms(self, plan: Plan, state: State) -> Terms:
        """The terms that `plan` is judged by."""
        return Terms(self.project.authority, self.desired.by_address, state, plan)


def _unapproved_deletes(
    plan: Plan, approved_deletes: Collection[str], waiting: Collection[Address]
) -> list[Diagnostic]:
    """An error for each delete that nobody approved. `waiting`: people are asked about these anyway."""
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


# --- plans from a file ---


def read_saved(file: Path, environment: str) -> SavedPlan:
    """Raises ReconcilerError for a file that holds no plan, and Refused for a plan of another environment."""
    found = load_saved(read_file(file))
    refuse_other_environment(environment, found.plan)
    return found


async def run_saved(
    project: Project,
    desired: Desired,
    plan: Plan,
    approved_deletes: Collection[str],
    approved_creates: Collection[str] = (),
    *,
    given: Given = NOTHING,
    on_executor: Callable[[Executor], None] = lambda executor: None,
    tell: Callable[[Plan], None] = lambda plan: None,
) -> Applied:
    """Plan anew, and run what `plan`, from a file, names of that: where it is another one, nothing runs.

    `given`: the approvals that were given for it, which also cover its deletes. `tell`: called with the plan
    that runs. Raises Refused, before any call, for a file that was made for another place, and PlanRefused
    for one whose plan is not the one made here.
    """
    refuse_other_environment(project.environment, plan)
    context = project.context(desired.origin, (await require_state(project)).lineage)
    problems = list(made_elsewhere(plan, origin(context, desired.manifests)))
    if problems:
        raise Refused("the file holds the plan of another run; nothing was changed", problems)

    def show(found: Plan) -> bool:
        """Show the plan that runs: it was approved as a file."""
        tell(found)
        return True

    given = replace(given, plan=plan_digest(plan))
    said = (show, approved_deletes, approved_creates, on_executor, tell, given)
    return await _Apply(project, about_targets(desired, plan), *said, reviewed=plan).done()


def about_targets(desired: Desired, plan: Plan) -> Desired:
    """`desired`, about the targets that `plan` was made for, and all else that it names."""
    targets = [Address.parse(target) for target in plan.manifests.targets]
    declared = desired.by_address
    named = [change.address for change in plan.changes if change.address in declared] if targets else []
    return desired.with_targets(list(dict.fromkeys([*targets, *named])))


def refuse_other_environment(environment: str, plan: Plan) -> None:
    """Raises Refused for a plan of another environment: names hardly differ between them."""
    planned, here = plan.context.environment, environment or BASE
    if planned != here:
        raise Refused(
            f"this plan was made for environment `{planned}`, but `{here}` is chosen; nothing was changed",
            help=f"pass --env {planned}",
        )
