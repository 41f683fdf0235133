"""What is to be said about a plan besides its changes. A new check is one more entry of `VERDICTS`."""

from collections.abc import Callable, Iterable

from reconciler.approvals.rules import APPROVALS
from reconciler.core.diagnostics import Diagnostic
from reconciler.core.model import Action
from reconciler.core.steps import Ask, Plan
from reconciler.kinds import find_kinds
from reconciler.planning.lookalikes import lookalike_warnings
from reconciler.project.gather import PlanInputs
from reconciler.project.identity import perhaps_other_state, state_missing
from reconciler.project.unknown_objects import no_record_of

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


def _inputs(plan: Plan, inputs: PlanInputs) -> Iterable[Diagnostic]:
    """Problems of manifests, moves, and secrets that cannot be read here."""
    yield from inputs.desired.diagnostics
    yield from inputs.followed.diagnostics
    yield from inputs.secrets.problems


def _lookalikes(plan: Plan, inputs: PlanInputs) -> Iterable[Diagnostic]:
    yield from inputs.planner.lookalikes.unread()
    kinds, records = find_kinds(), inputs.request.records
    yield from lookalike_warnings(kinds, inputs.lookalikes, inputs.declared, records, inputs.siblings)


def _providers(plan: Plan, inputs: PlanInputs) -> Iterable[Diagnostic]:
    return inputs.unsigned.values()


def _changes(plan: Plan, inputs: PlanInputs) -> Iterable[Diagnostic]:
    """Problems that the planner found."""
    return plan.diagnostics


def _approvals(plan: Plan, inputs: PlanInputs) -> Iterable[Diagnostic]:
    """The approvals that an apply will ask for, and rules that get weaker. An apply judges them itself."""
    if inputs.will_run or not (inputs.authority.now.rules or APPROVALS in inputs.state.remembered):
        return []
    from reconciler.approvals.judging import asked_of  # few projects have rules

    return asked_of(inputs.authority, plan, inputs.state, inputs.declared)


def _unclaimed(plan: Plan, inputs: PlanInputs) -> Iterable[Diagnostic]:
    """Objects that calls of ours made, and that no record tracks."""
    makes = {step.address for step in plan.steps if step.effect.id_path is not None}
    asks = {step.address for step in plan.steps if step.mutates and isinstance(step.recovery, Ask)}
    return [no_record_of(entry, makes, asks) for entry in inputs.state.unclaimed]


def _older(plan: Plan, inputs: PlanInputs) -> Iterable[Diagnostic]:
    return inputs.older.told()


# In the order of reports.
VERDICTS: tuple[Verdict, ...] = (
    _state,
    _inputs,
    _lookalikes,
    _providers,
    _changes,
    _approvals,
    _unclaimed,
    _older,
)
