"""Approvals: of creates, where the state knows nothing of their kind and nothing lists their objects.

Where a state was lost, everything looks new. What a list shows is adopted then; what none shows would be made
a second time.
"""

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from reconciler.core.advice import command
from reconciler.core.context import EMBEDDED
from reconciler.core.diagnostics import Diagnostic, error, warning
from reconciler.core.model import TO_APPROVE, Action, Address, Change, Resource
from reconciler.core.steps import Plan
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import listed
from reconciler.manifests.validation.references import nearest_address
from reconciler.pipeline.declared import Desired
from reconciler.pipeline.project import Project
from reconciler.state.store import State

_MAKING = (Action.CREATE, Action.RESTORE)


async def creates_to_approve(
    project: Project, plan: Plan, state: State, resources: Mapping[Address, Resource]
) -> frozenset[Address]:
    """What `plan` makes and nobody can look up, of kinds that `state` has never known.

    Nothing where the project began with the state, and in the embedded sandbox.
    """
    if state.new or not state.lineage or project.address == EMBEDDED:
        return frozenset()
    made = {change.address for change in plan.changes if change.action in _MAKING}
    # What a call does decides, too, not only what its change says.
    made |= {step.address for step in plan.steps if step.effect.id_path is not None}
    hidden = {
        address
        for address in made
        if address not in state.records and not _is_listed(address, resources, project.capabilities)
    }
    unknown = {kind for kind in {each.kind for each in hidden} if not await project.store.knows(kind)}
    return frozenset(each for each in hidden if each.kind in unknown)


def _is_listed(address: Address, resources: Mapping[Address, Resource], capabilities: frozenset[str]) -> bool:
    kind, resource = find_kinds().get(address.kind), resources.get(address)
    return (
        kind is not None
        and resource is not None
        and listed(kind, resource, capabilities, resources) is not None
    )


def with_reasons(plan: Plan, creates: Collection[Address]) -> Plan:
    """`plan`, which says of each of `creates` that it needs approval, and why."""
    if not creates:
        return plan
    return replace(
        plan, changes=tuple(_named(each) if each.address in creates else each for each in plan.changes)
    )


def _named(change: Change) -> Change:
    why = f"{TO_APPROVE}no list shows a {change.address.kind}, and none was ever recorded"
    return replace(change, reason=f"{why}; {change.reason}" if change.reason else why)


def unapproved_creates(creates: Collection[Address], approved: Collection[str]) -> list[Diagnostic]:
    """An error for each of `creates` that is not `approved`.

    Raises TypeError for `approved` that is one text: any part of it would approve.
    """
    if isinstance(approved, str):
        raise TypeError("`approved_creates` must be a collection of addresses, not one text")
    return [_not_approved(each) for each in sorted(creates, key=str) if str(each) not in approved]


def _not_approved(address: Address) -> Diagnostic:
    restore = command("state", "restore", "FILE")
    return error(
        "create-not-approved",
        f"`{address}` would be created, but may exist already: no list shows a {address.kind}, and none "
        "was ever recorded in this state",
        help="look on the platform: if it exists, write its id as `metadata.id`; if it does not, pass "
        f"--approve-create {address.quoted}; if an older state has it, restore that one with `{restore}`",
        advice=(restore,),
    )


def with_unknown_approvals(
    plan: Plan,
    desired: Desired,
    records: Collection[Address],
    approved_deletes: Collection[str],
    approved_creates: Collection[str],
) -> Plan:
    """`plan`, with a warning for each approval of an address that nobody knows.

    No error: who runs an apply again approves a delete that is done, and whose record is gone.
    """
    approved = {*approved_deletes, *approved_creates}
    if not approved:
        return plan
    known = {*desired.by_address, *records, *(change.address for change in plan.changes)}
    told = [_unknown(each, known) for each in sorted(approved.difference(map(str, known)))]
    return replace(plan, diagnostics=(*plan.diagnostics, *told))


def _unknown(approved: str, known: Collection[Address]) -> Diagnostic:
    try:
        near = nearest_address(Address.parse(approved), known)
    except ValueError:
        near = "an address looks like Volume/shop/data"
    return warning(
        "unknown-approval",
        f"neither a given manifest nor a record has `{approved}`, which is approved",
        help=near or "a delete that is done needs no approval any more; else correct the address",
    )
