"""In which scopes a run of a plan sends or records something: their leases it needs, and no others."""

from collections.abc import Collection, Mapping

from reconciler.core.model import Action, Address, Resource, StateRecord
from reconciler.core.steps import Binding, Plan
from reconciler.moves.carry_out import moved_records
from reconciler.moves.compare import only_left
from reconciler.pipeline.declared import declared_scopes
from reconciler.pipeline.preconditions import still_there

Resources = Mapping[Address, Resource]  # what the manifests declare


def needed_scopes(
    plan: Plan, records: Mapping[Address, StateRecord], resources: Resources
) -> Collection[str]:
    touched = {step.address for step in plan.steps}
    touched |= {change.address for change in plan.changes if change.action is Action.FORGET}
    scopes = {binding.scope for binding in recorded_bindings(plan, resources)}
    scopes |= {record.scope for record in moved_records(still_there(plan, records), records)[0].values()}
    return scopes | {records[address].scope for address in touched if address in records}


def recorded_bindings(plan: Plan, resources: Resources) -> list[Binding]:
    """Those that a run records. That a manifest has left is told by each plan, and no reason to keep others
    from a scope: it is recorded in those of which the manifests declare something.

    Else runners that have the manifests of one app each would need the locks of all. Where nothing is
    declared at all, nobody else can be meant.
    """
    own = declared_scopes(resources.values())
    return [each for each in plan.bindings if not own or each.scope in own or not only_left(each)]
