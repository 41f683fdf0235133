"""What the verbs do, each on half a screen: the command line and later the controller call these.

Reading verbs take no lock and write nothing. `apply` shows its plan, takes the leases of
the scopes that the plan changes, finds everything as the plan saw it, and only then sends.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from reconciler.clock import Clock
from reconciler.diagnostics import Diagnostic, error, has_errors, warning
from reconciler.errors import Refused, SecretUnavailable
from reconciler.execution.executor import Executor, Limits
from reconciler.execution.recorder import Recorder
from reconciler.execution.unsettled import overlay, settle_open
from reconciler.execution.values import Outputs
from reconciler.kinds import find_kinds
from reconciler.model import Action, Address, Change, Observation, Owed, Resource, StateRecord, owed_work
from reconciler.observe import observe
from reconciler.planning.drift import drift_of
from reconciler.planning.fingerprint import digest_now
from reconciler.planning.planner import Planner
from reconciler.platform.client import Platform
from reconciler.reporter import Reporter
from reconciler.secrets.fingerprint import fingerprint
from reconciler.secrets.sensitive import Sensitive
from reconciler.secrets.sources import read_secret_file, resolve
from reconciler.state.store import Lease, State, Store
from reconciler.steps import OutputRef, Plan, Read, Result, SecretRef


@dataclass(frozen=True, slots=True)
class Project:
    """Everything a verb needs from outside. `new_id` gives ids for plans and runs; `holder` names this process."""

    store: Store
    platform: Platform
    capabilities: frozenset[str]
    limits: Limits
    clock: Clock
    reporter: Reporter
    env: Mapping[str, str]
    new_id: Callable[[], str]
    holder: str
    lock_timeout_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Desired:
    """The loaded manifests. `selected`: whether a record that no manifest names belongs to the files given."""

    resources: Sequence[Resource]
    diagnostics: tuple[Diagnostic, ...] = ()
    selected: Callable[[StateRecord], bool] = lambda record: True


@dataclass(frozen=True, slots=True)
class Applied:
    """A plan and what became of it. `declined`: a person said no, and nothing was sent."""

    plan: Plan
    results: Sequence[Result] = ()
    owed: tuple[Owed, ...] = ()
    declined: bool = False
    interrupted: bool = False


# --- plan ---


async def make_plan(project: Project, desired: Desired, *, need_secrets: bool = False) -> Plan:
    """What apply would do. `need_secrets`: an unreadable secret source is an error, not a warning."""
    state = await project.store.load()
    records, undecided = await overlay(
        state, platform=project.platform, clock=project.clock, settle_s=project.limits.settle_s
    )
    planner = Planner(
        find_kinds(),
        desired.resources,
        records,
        capabilities=project.capabilities,
        now=project.clock.now(),
        selected=desired.selected,
        undecided=undecided,
    )
    await _observe(project, planner.reads(), planner.answer)
    await _observe(project, planner.more_reads(), planner.more_answer)
    fingerprints, problems = await _fingerprint_secrets(
        project, desired.resources, records, planner.live, need_secrets=need_secrets
    )
    return planner.finish(
        id=project.new_id(),
        lineage=state.lineage,
        fingerprints=fingerprints,
        diagnostics=(*desired.diagnostics, *problems),
    )


async def _observe(
    project: Project, reads: Sequence[Read], on_answer: Callable[[Read, Observation], None]
) -> None:
    await observe(project.platform, reads, on_answer, clock=project.clock, reporter=project.reporter)


def _read_secret(project: Project, ref: SecretRef, output: Callable[[OutputRef], Any]) -> Sensitive:
    return resolve(ref, env=project.env, read_file=read_secret_file, output=output)


async def _fingerprint_secrets(
    project: Project,
    resources: Sequence[Resource],
    records: Mapping[Address, StateRecord],
    live: Mapping[Address, Any],
    *,
    need_secrets: bool,
) -> tuple[dict[Address, str], list[Diagnostic]]:
    """The fingerprints of all secret values that can be read now; what else is missing is reported."""
    kinds = find_kinds()
    outputs = Outputs()
    for address, item in live.items():
        outputs.put(str(address), item.model_dump())
    fingerprints: dict[Address, str] = {}
    problems = []
    for resource in resources:
        ref = kinds[resource.address.kind].secret(resource)
        if ref is None:
            continue
        not_yet: list[OutputRef] = []

        def output(ref: OutputRef, not_yet: list[OutputRef] = not_yet) -> Any:
            value = outputs.get(ref)
            if value is None:
                not_yet.append(ref)
                return "not known yet"
            return value

        try:
            value = _read_secret(project, ref, output)
        except SecretUnavailable as missing:
            report = error if need_secrets else warning
            problems.append(
                report(
                    "secret-source",
                    f"`{resource.address}`: source not readable here: {missing.message}",
                    resource.span("spec", "value_from"),
                    help="provide it where apply runs",
                )
            )
            continue
        if resource.address in records and not not_yet:
            key = await project.store.fingerprint_key()
            fingerprints[resource.address] = fingerprint(key, resource.address, value)
    return fingerprints, problems


# --- apply ---


async def apply(
    project: Project,
    desired: Desired,
    *,
    approve: Callable[[Plan], bool],
    approved_deletes: Collection[str] = (),
    on_executor: Callable[[Executor], None] = lambda executor: None,
) -> Applied:
    """Plan, ask, run. Raises Refused when the plan may not run as it is; then nothing was sent."""
    await settle_open(
        project.store,
        platform=project.platform,
        clock=project.clock,
        reporter=project.reporter,
        settle_s=project.limits.settle_s,
        holder=project.holder,
        timeout_s=project.lock_timeout_s,
    )
    plan = await make_plan(project, desired, need_secrets=True)
    refuse_unless_runnable(plan, approved_deletes)
    if plan.steps or any(change.action is Action.ADOPT for change in plan.changes):
        if not approve(plan):
            return Applied(plan, declined=True, owed=plan.owed)
    elif not plan.bindings and not any(change.action is Action.FORGET for change in plan.changes):
        return Applied(plan, owed=plan.owed)
    return await run_plan(project, plan, on_executor=on_executor)


def refuse_unless_runnable(plan: Plan, approved_deletes: Collection[str]) -> None:
    """All or nothing: a plan with a refused change or an unapproved delete sends no call at all."""
    unapproved = [
        error(
            "delete-not-approved",
            f"`{change.address}` ({change.id}) would be deleted: {change.reason}",
            help=f"if that is meant, pass --approve-delete {change.address}",
        )
        for change in plan.changes
        if change.action is Action.DELETE and str(change.address) not in approved_deletes
    ]
    if unapproved or has_errors(plan.diagnostics):
        raise PlanRefused(plan, (*plan.diagnostics, *unapproved))


class PlanRefused(Refused):
    """Carries the plan, so that a person sees what was refused."""

    def __init__(self, plan: Plan, diagnostics: Sequence[Diagnostic]) -> None:
        super().__init__("the plan is refused; nothing was changed", diagnostics)
        self.plan = plan


async def run_plan(
    project: Project,
    plan: Plan,
    *,
    on_executor: Callable[[Executor], None] = lambda executor: None,
) -> Applied:
    """Carry `plan` out under the leases of its scopes. Raises Refused, before any call, when something moved."""
    scopes = sorted({binding.scope for binding in plan.bindings} | await _scopes_of_records(project, plan))
    lease = await project.store.lease(scopes, project.holder, timeout_s=project.lock_timeout_s)
    try:
        return await _run_under(project, plan, lease, on_executor)
    finally:
        with anyio.CancelScope(shield=True):
            await project.store.release(lease)


async def _scopes_of_records(project: Project, plan: Plan) -> set[str]:
    records = (await project.store.load()).records
    return {records[change.address].scope for change in plan.changes if change.address in records}


async def _run_under(
    project: Project, plan: Plan, lease: Lease, on_executor: Callable[[Executor], None]
) -> Applied:
    state = await project.store.load()
    _refuse_unless_current(plan, state)
    observed = await _observe_again(project, plan)
    moved = _moved(plan, state, observed)
    if moved:
        raise Refused(
            "something moved since the plan was made; nothing was changed",
            [
                error("moved", f"`{address}` {how}", help="make a new plan and look at it again")
                for address, how in moved.items()
            ],
        )
    outputs = Outputs()
    for source, read in plan.inputs:
        record = state.records.get(Address.parse(source))
        for item in observed[read].objects:
            if record is None or item.id == record.id:
                outputs.put(source, item.model_dump())
    secrets: dict[SecretRef, Sensitive] = {}

    def read_secret(ref: SecretRef, output: Callable[[OutputRef], Any]) -> Sensitive:
        # Read once: what is fingerprinted must be what was sent.
        if ref not in secrets:
            secrets[ref] = _read_secret(project, ref, output)
        return secrets[ref]

    recorder = Recorder(project.store, lease, project.new_id(), project.clock, state.records)
    await recorder.start(plan)
    executor = Executor(
        plan,
        platform=project.platform,
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
        await recorder.finish()
    adopted = [
        Result(change.address, f"{change.address}#{change.action}", "done", change.id)
        for change in plan.changes
        if change.action in (Action.ADOPT, Action.FORGET)
    ]
    return Applied(plan, (*adopted, *results), recorder.owed(), interrupted=executor.stopping)


def _refuse_unless_current(plan: Plan, state: State) -> None:
    if plan.id in state.plans_run:
        raise Refused(
            "this plan was already applied: a plan runs once", help="make a new one with `reconcile plan`"
        )
    if plan.lineage and state.lineage and plan.lineage != state.lineage:
        raise Refused("this plan was made for another state", help="check --state, or make a new plan")


async def _observe_again(project: Project, plan: Plan) -> Mapping[Read, Observation]:
    observed: dict[Read, Observation] = {}
    reads = [expected.read for expected in plan.expectations if expected.read is not None]
    reads += [read for _, read in plan.inputs]
    await _observe(project, list(dict.fromkeys(reads)), observed.__setitem__)
    return observed


def _moved(plan: Plan, state: State, observed: Mapping[Read, Observation]) -> dict[Address, str]:
    """The addresses that are not as the plan saw them, and how."""
    moved: dict[Address, str] = {}
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


# --- drift ---


async def find_drift(project: Project, desired: Desired) -> Plan:
    """A plan without steps: what differs between the records and the platform. Sends nothing but GET."""
    state = await project.store.load()
    kinds = find_kinds()
    wanted = {resource.address: resource for resource in desired.resources}
    by_read: dict[Read, list[StateRecord]] = {}
    for record in state.records.values():
        kind = kinds.get(record.address.kind)
        if kind is None or record.address not in wanted:
            continue
        read = kind.read(record.address, record.id, project.capabilities)
        if read is not None:
            by_read.setdefault(read, []).append(record)
    changes: list[Change] = []
    problems: list[Diagnostic] = []

    def compare(read: Read, observation: Observation) -> None:
        if not observation.complete:
            problems.append(error("unreadable", f"cannot read {read.path}: {observation.problem}"))
            return
        by_id = {item.id: item for item in observation.objects}
        for record in by_read[read]:
            kind = kinds[record.address.kind]
            change = drift_of(kind, record, wanted[record.address], by_id.get(record.id))
            if change is not None:
                changes.append(change)

    await _observe(project, list(by_read), compare)
    compared = sum(map(len, by_read.values()))
    return Plan(
        id=project.new_id(),
        lineage=state.lineage,
        created_at=project.clock.now(),
        changes=tuple(sorted(changes, key=lambda change: str(change.address))),
        steps=(),
        expectations=(),
        bindings=(),
        owed=owed_work(state.records),
        diagnostics=(*desired.diagnostics, *problems),
        unchanged=compared - len(changes),
    )
