"""`--target`: what a plan, an apply or a drift is about, with what it needs."""

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from reconciler.core.advice import command
from reconciler.core.diagnostics import Diagnostic, error
from reconciler.core.errors import Misused
from reconciler.core.model import Address, Resource, StateRecord
from reconciler.manifests.validation.references import nearest_address
from reconciler.planning.declared import Desired
from reconciler.policies.moved import MovedSpec


def with_targets(desired: Desired, targets: Collection[Address]) -> Desired:
    """`desired`, about these addresses only; about all of it where there are none."""
    manifests = replace(desired.manifests, targets=tuple(map(str, targets)))
    return replace(desired, targets=tuple(targets), manifests=manifests)


def focused(desired: Desired, records: Mapping[Address, StateRecord]) -> Desired:
    """`desired` with the focus that its targets give. Raises Misused for a target that names nothing."""
    if not desired.targets:
        return desired
    known = _known(desired, records)
    problems = [_unknown(target, desired, known) for target in desired.targets if not _meant(target, known)]
    if problems:
        raise Misused("a target does not exist; nothing was changed", problems)
    found = {address for target in desired.targets for address in _meant(target, known)}
    focus = _with_needs(found, desired.by_address)
    return replace(desired, focus=focus if desired.focus is None else focus.intersection(desired.focus))


def declared_in_focus(desired: Desired) -> list[Resource]:
    """The resources that a plan of `desired` is about."""
    focus = desired.focus
    if focus is None and not desired.targets:
        return list(desired.resources)
    declared = desired.by_address
    if desired.targets:
        found = {address for target in desired.targets for address in _meant(target, declared)}
        focus = _with_needs(found, declared).intersection(declared if focus is None else focus)
    return [each for each in desired.resources if focus is None or each.address in focus]


def moves_in_focus(desired: Desired) -> list[Resource]:
    """The Moved manifests that end at what `desired` is about: others' records stay where they are."""
    entries = [each for each in desired.policies if isinstance(each.spec, MovedSpec)]
    if not desired.targets or desired.focus is None:
        return entries
    ends, found = {_base(address) for address in desired.focus}, list[Resource]()
    while more := [each for each in entries if each not in found and _base(each.spec.target) in ends]:
        found += more
        ends |= {_base(each.spec.source) for each in more}
    return found


def _known(desired: Desired, records: Mapping[Address, StateRecord]) -> list[Address]:
    """What is declared, and what is recorded and left; an address that was left for another is that one."""
    declared = desired.by_address
    former = {each.spec.source for each in desired.policies if isinstance(each.spec, MovedSpec)}
    left = [
        address
        for address, record in records.items()
        if address not in declared
        and not former.intersection((address, _base(address)))
        and desired.selected(record)
    ]
    return [*declared, *left]


def _meant(target: Address, known: Collection[Address]) -> list[Address]:
    """A target without an index is all of a `count`."""
    return [each for each in known if target in (each, _base(each))]


def _with_needs(addresses: Collection[Address], declared: Mapping[Address, Resource]) -> frozenset[Address]:
    found, waiting = set[Address](), list(addresses)
    while waiting:
        address = waiting.pop()
        if address not in found:
            found.add(address)
            resource = declared.get(address)
            waiting += [to.address for to in resource.references] if resource is not None else []
    return frozenset(found)


def _unknown(target: Address, desired: Desired, known: Collection[Address]) -> Diagnostic:
    near = nearest_address(target, known)
    for each in desired.policies:
        if isinstance(each.spec, MovedSpec) and each.spec.source in (target, _base(target)):
            near = f"`{each.address}` says that it is now `{each.spec.target}`"
        elif each.address == target:
            near = f"a {target.kind} owns no object: name the resources to which it applies"
    listed = command("state", "list")
    return error(
        "unknown-target",
        f"neither a given manifest nor a record has the address `{target}`",
        help=near or f"an address looks like Volume/shop/data; `{listed}` shows those that are recorded",
        advice=() if near else (listed,),
    )


def _base(address: Address) -> Address:
    return address._replace(ordinal=0)
