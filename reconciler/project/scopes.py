"""The scopes that a run needs or is about, and the addresses that `--target` names.

A scope is an app or an organization: its lease keeps other runs away from everything in it. A target is an
address, and stands for everything that it refers to, too.
"""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from msgspec.structs import replace

from reconciler.core.advice import command
from reconciler.core.diagnostics import Diagnostic, error
from reconciler.core.errors import Locked, Misused
from reconciler.core.model import Action, Address, Resource, StateRecord
from reconciler.core.steps import Binding, Plan
from reconciler.execution.open_intents import parse_intent
from reconciler.kinds import find_kinds
from reconciler.manifests.validation.references import nearest_address
from reconciler.moves.compare import only_left
from reconciler.moves.records import moved_records
from reconciler.planning.declared import Desired, declared_scopes
from reconciler.policies.moved import MovedSpec
from reconciler.project.preconditions import still_there
from reconciler.state.store import State

Resources = Mapping[Address, Resource]  # what the manifests declare


def needed_scopes(
    plan: Plan, records: Mapping[Address, StateRecord], resources: Resources
) -> Collection[str]:
    """The scopes whose leases a run of `plan` needs."""
    touched = {step.address for step in plan.steps}
    touched |= {change.address for change in plan.changes if change.action is Action.FORGET}
    scopes = {binding.scope for binding in recorded_bindings(plan, resources)}
    moved = moved_records(find_kinds(), still_there(plan, records), records)
    scopes |= {record.scope for record in moved.values()}
    return scopes | {records[address].scope for address in touched if address in records}


def recorded_bindings(plan: Plan, resources: Resources) -> list[Binding]:
    """The bindings that a run records.

    A record remembers that its manifest has left only in scopes in which the manifests declare something:
    else runners that have the manifests of one app each would need the locks of all. Where nothing is
    declared at all, nobody else can be meant.
    """
    own = declared_scopes(resources.values())
    return [binding for binding in plan.bindings if not own or binding.scope in own or not only_left(binding)]


def concerned_scopes(
    desired: Desired, state: State, holders: Mapping[str, Locked] = MappingProxyType({})
) -> frozenset[str]:
    """The scopes with open calls that the given manifests are about, also by a resource that has left them.

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


def focused(desired: Desired, records: Mapping[Address, StateRecord]) -> Desired:
    """`desired` with the focus that its targets give. Raises Misused for a target that names nothing."""
    if not desired.targets:
        return desired
    declared = desired.by_address
    former = {policy.spec.source for policy in desired.policies if isinstance(policy.spec, MovedSpec)}
    left = [  # recorded, and left for no other address
        address
        for address, record in records.items()
        if address not in declared
        and not former.intersection((address, _base(address)))
        and desired.selected(record)
    ]
    known = _by_base((*declared, *left))
    problems = [
        _unknown(target, desired, (*declared, *left))
        for target in desired.targets
        if not _meant(target, known)
    ]
    if problems:
        raise Misused("a target does not exist; nothing was changed", problems)
    return replace(desired, focus=_about(desired, known))


def declared_in_focus(desired: Desired) -> list[Resource]:
    """The resources that a plan of `desired` is about."""
    focus = _about(desired, _by_base(desired.by_address)) if desired.targets else desired.focus
    return [resource for resource in desired.resources if focus is None or resource.address in focus]


def moves_in_focus(desired: Desired) -> list[Resource]:
    """The Moved manifests that end at what `desired` is about: others' records stay where they are."""
    entries = [policy for policy in desired.policies if isinstance(policy.spec, MovedSpec)]
    if not desired.targets or desired.focus is None:
        return entries
    ends, found = {_base(address) for address in desired.focus}, list[Resource]()
    while more := [entry for entry in entries if entry not in found and _base(entry.spec.target) in ends]:
        found += more
        ends |= {_base(entry.spec.source) for entry in more}
    return found


def with_questions(
    desired: Desired,
    entries: Iterable[Resource],
    questions: Collection[Address],
    records: Mapping[Address, StateRecord],
) -> Desired:
    """`desired`, also about each of `questions` that may be about a target's object.

    Either `entries` move its address to a target, or its create was lost and its manifest is gone: then a
    new target of that kind and app may be its object under a new name.
    """
    if desired.focus is None:
        return desired
    sources = {_base(entry.spec.source) for entry in entries}
    new = {(address.kind, address.app) for address in desired.focus if address not in records}
    known = {**desired.by_address, **records}
    also = (
        each
        for each in questions
        if _base(each) in sources or (each not in known and (each.kind, each.app) in new)
    )
    return replace(desired, focus={*desired.focus, *also})


_ByBase = Mapping[Address, list[Address]]


def _by_base(known: Iterable[Address]) -> _ByBase:
    """The addresses by what they are without their [index]: there may be thousands, and as many targets."""
    found: dict[Address, list[Address]] = {}
    for address in known:
        found.setdefault(_base(address), []).append(address)
    return found


def _meant(target: Address, known: _ByBase) -> list[Address]:
    """A target without an index is all of a `count`."""
    same = known.get(_base(target), [])
    return [address for address in same if target in (address, _base(address))]


def _about(desired: Desired, known: _ByBase) -> Collection[Address]:
    """The `known` addresses that the targets mean and all that they refer to, as far as in the focus."""
    found, declared = set[Address](), desired.by_address
    waiting = [address for target in desired.targets for address in _meant(target, known)]
    while waiting:
        address = waiting.pop()
        if address not in found:
            found.add(address)
            resource = declared.get(address)
            waiting += [to.address for to in resource.references] if resource is not None else []
    return frozenset(found if desired.focus is None else found.intersection(desired.focus))


def _unknown(target: Address, desired: Desired, known: Collection[Address]) -> Diagnostic:
    """The error for a target that names nothing."""
    near = nearest_address(target, known)
    for policy in desired.policies:
        if isinstance(policy.spec, MovedSpec) and policy.spec.source in (target, _base(target)):
            near = f"`{policy.address}` says that it is now `{policy.spec.target}`"
        elif policy.address == target:
            near = f"the kind {target.kind} owns no object: name the resources to which it applies"
    listed = command("state", "list")
    return error(
        "unknown-target",
        f"neither a given manifest nor a record has the address `{target}`",
        help=near or f"an address looks like Volume/shop/data; `{listed}` shows those that are recorded",
        advice=() if near else (listed,),
    )


def _base(address: Address) -> Address:
    """The address without its [index]."""
    return address._replace(ordinal=0)
