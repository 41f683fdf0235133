"""The scopes that a run is about, and those whose leases it needs."""

from collections.abc import Collection, Mapping
from types import MappingProxyType

from reconciler.core.errors import Locked
from reconciler.core.model import Action, Address, Resource, StateRecord
from reconciler.core.steps import Binding, Plan
from reconciler.execution.open_intents import parse_intent
from reconciler.kinds import find_kinds
from reconciler.moves.compare import only_left
from reconciler.moves.records import moved_records
from reconciler.planning.declared import Desired, declared_scopes
from reconciler.project.preconditions import still_there
from reconciler.project.targets import declared_in_focus, focused
from reconciler.state.store import State

Resources = Mapping[Address, Resource]  # what the manifests declare


def needed_scopes(
    plan: Plan, records: Mapping[Address, StateRecord], resources: Resources
) -> Collection[str]:
    touched = {step.address for step in plan.steps}
    touched |= {change.address for change in plan.changes if change.action is Action.FORGET}
    scopes = {binding.scope for binding in recorded_bindings(plan, resources)}
    moved = moved_records(find_kinds(), still_there(plan, records), records)
    scopes |= {record.scope for record in moved.values()}
    return scopes | {records[address].scope for address in touched if address in records}


def recorded_bindings(plan: Plan, resources: Resources) -> list[Binding]:
    """Those that a run records. That a manifest has left is told by each plan, and no reason to keep others
    from a scope: it is recorded in those of which the manifests declare something.

    Else runners that have the manifests of one app each would need the locks of all. Where nothing is
    declared at all, nobody else can be meant.
    """
    own = declared_scopes(resources.values())
    return [each for each in plan.bindings if not own or each.scope in own or not only_left(each)]


def concerned_scopes(
    desired: Desired, state: State, holders: Mapping[str, Locked] = MappingProxyType({})
) -> frozenset[str]:
    """The scopes with something left over that the given manifests are about, also by what has left them.

    Not what has left in a scope that somebody is at work in (`holders`): its calls are that one's business.
    Raises Misused for a target that names nothing.
    """
    desired = focused(desired, state.records)
    if not state.open_intents and not state.spooled:
        return frozenset()
    about = declared_in_focus(desired) if desired.targets else desired.resources
    scopes = declared_scopes(about)
    for opened in state.open_intents:
        intent = parse_intent(opened)
        if (
            opened.address is not None
            and intent.scope not in holders
            and desired.selected(intent.record(opened.address, "", opened.at, inferred=False))
            and (not desired.targets or desired.focus is None or opened.address in desired.focus)
        ):
            scopes.add(intent.scope)
    wanted = {resource.address for resource in about}
    scopes |= {record.scope for record in state.records.values() if record.address in wanted}
    return frozenset(scopes)
