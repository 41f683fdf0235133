"""Planning: everything is gathered, the plan is made from that alone, and verdicts are added to it.

A verdict is a function that gives diagnostics about a plan and its inputs. A new check is one more entry of
`VERDICTS`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain

from msgspec.structs import replace

from reconciler.approvals.creates import creates_to_approve, with_reasons
from reconciler.approvals.in_force import Terms, rules_count, weakened_objectives
from reconciler.approvals.windows import Windows
from reconciler.core.diagnostics import Diagnostic, as_warning
from reconciler.core.model import Action, Address, Observation, overdue
from reconciler.core.steps import Ask, Plan, Read
from reconciler.drills.results import not_recoverable, unproven, with_proofs
from reconciler.execution.settling import Settlement
from reconciler.kinds import find_kinds
from reconciler.planning.declared import Desired
from reconciler.planning.lookalikes import lookalike_warnings
from reconciler.planning.reviewed import NOT_IN_PLAN
from reconciler.project.gather import Found, PlanInputs, gather
from reconciler.project.identity import perhaps_other_state, state_missing
from reconciler.project.project import Project
from reconciler.project.records import no_record_of
from reconciler.project.scopes import declared_in_focus
from reconciler.services.registry import providers_of


async def make_plan(
    project: Project,
    desired: Desired,
    *,
    undecided: Mapping[Address, Settlement] | None = None,
    with_exec: bool = False,
    approved_deletes: Collection[str] | None = None,
    found: Found | None = None,
    on_answer: Callable[[Read, Observation], None] = lambda read, observation: None,
) -> Plan:
    """The plan of an apply. `found`: the state and who is at work in it, if they were read just now.

    `undecided`: given by an apply, which has settled what it could (`settle_open`): then the plan is about
    to run, and an unreadable secret source is an error, not a warning: what needs it is refused. `with_exec`:
    programs that give secret values are run; an apply always runs them. `approved_deletes`: see
    `PlanRequest`. `on_answer`: gets each answer of the platform.
    """
    inputs = await gather(
        project,
        desired,
        found,
        undecided=undecided,
        with_exec=with_exec,
        approved_deletes=approved_deletes,
        on_answer=on_answer,
    )
    plan = _plan(inputs)
    plan = Windows(Terms(inputs.authority, inputs.declared, inputs.state, plan)).annotated()
    diagnostics = chain.from_iterable(verdict(plan, inputs) for verdict in VERDICTS)
    return replace(plan, diagnostics=tuple(diagnostics))


def _plan(inputs: PlanInputs) -> Plan:
    """The plan, with the diagnostics of the planner alone. The planner ends with this."""
    state, declared, unread = inputs.state, inputs.declared, inputs.secrets.unread
    plan = inputs.planner.finish(
        inputs.secrets.fingerprints, [*unread, *inputs.unsigned] if inputs.will_run else ()
    )
    unlisted, doubted = inputs.planner.lookalikes.unread(), inputs.planner.lookalikes.doubted
    # Where a look-alike exists, or may exist, another object may be the one of a lost reply.
    bindings = [
        binding
        for binding in plan.bindings
        if not (binding.confirms and (unlisted or binding.address in doubted))
    ]
    wanted = {resource.address: resource for resource in inputs.wanted}
    plan = with_reasons(plan, creates_to_approve(plan, state, declared, inputs.request.capabilities))
    plan = with_proofs(plan, inputs.proofs, plan.context.at)
    return replace(
        plan,
        bindings=tuple(bindings),
        loosened=tuple(weakened_objectives(state, wanted, inputs.followed.moves)),
        providers={name: inputs.providers[name] for name in providers_of(plan) if name in inputs.providers},
        moves=inputs.followed.moves,
        manifests=inputs.desired.manifests,
        unread=plan.unread or tuple(unread),
    )


def unchanged_in(plan: Plan, desired: Desired) -> list[Address]:
    """The resources that `plan`, made of `desired`, counts as unchanged."""
    changed, about = {str(change.address) for change in plan.changes}, declared_in_focus(desired)
    for problem in plan.diagnostics:
        if problem.code == NOT_IN_PLAN:  # planned, and taken out of `plan`
            changed.update(problem.addresses)
    return [resource.address for resource in about if str(resource.address) not in changed]


Verdict = Callable[[Plan, PlanInputs], Iterable[Diagnostic]]

NOTHING_KNOWN = "the objects that were created before are not known, and this plan cannot be applied"


def _state(plan: Plan, inputs: PlanInputs) -> Iterable[Diagnostic]:
    """Whether there is a state, and whether it is the one that is meant."""
    place, state = plan.context.state, inputs.state
    if not state.lineage:
        return [state_missing(place, NOTHING_KNOWN, traces=state.traces, refused=False)]
    if inputs.own_state or any(change.action is Action.REFUSED for change in plan.changes):
        return []  # what is refused is not applied, and may be what got another name
    records, selected = inputs.request.records.items(), inputs.desired.selected
    recorded = (address for address, record in records if selected(record))
    found = perhaps_other_state(state.lineage, inputs.declared, recorded, place)
    return [found] if found is not None else []


def _lookalikes(plan: Plan, inputs: PlanInputs) -> Iterable[Diagnostic]:
    """Unowned objects that resemble recorded ones, and lists that could not be searched for them."""
    yield from inputs.planner.lookalikes.unread()
    kinds, records = find_kinds(), inputs.request.records
    yield from lookalike_warnings(kinds, inputs.lookalikes, inputs.declared, records, inputs.siblings)


def _approvals(plan: Plan, inputs: PlanInputs) -> Iterable[Diagnostic]:
    """The approvals that an apply will ask for, and rules that get weaker. An apply judges them itself."""
    if inputs.will_run or not rules_count(inputs.authority, inputs.state):
        return []
    from reconciler.approvals.judging import asked_of  # few projects have rules

    return asked_of(Terms(inputs.authority, inputs.declared, inputs.state, plan), inputs.spent)


def _recoverable(plan: Plan, inputs: PlanInputs) -> Iterable[Diagnostic]:
    """What goes although no drill proves that it could be brought back. An apply judges that itself."""
    if inputs.will_run:
        return []
    missing = unproven(plan, inputs.proofs)
    return [as_warning(not_recoverable(proof, plan.context.at)) for proof in missing]


def _unclaimed(plan: Plan, inputs: PlanInputs) -> Iterable[Diagnostic]:
    """Objects that calls of ours made, and that no record tracks."""
    makes = {step.address for step in plan.steps if step.effect.id_path is not None}
    asks = {step.address for step in plan.steps if step.mutates and isinstance(step.recovery, Ask)}
    return [no_record_of(entry, makes, asks) for entry in inputs.state.unclaimed]


# In the order of reports.
VERDICTS: tuple[Verdict, ...] = (
    _state,
    lambda plan, inputs: inputs.desired.diagnostics,
    lambda plan, inputs: inputs.followed.diagnostics,
    lambda plan, inputs: inputs.secrets.problems,  # secrets that cannot be read here
    _lookalikes,
    lambda plan, inputs: inputs.unsigned.values(),  # providers whose signing secret gives no value here
    lambda plan, inputs: plan.diagnostics,  # those of the planner
    _approvals,
    _recoverable,
    lambda plan, inputs: overdue(plan.owed, plan.context.at),
    _unclaimed,
    lambda plan, inputs: inputs.older.note(),  # objects that are older than the state and unknown to it
)
