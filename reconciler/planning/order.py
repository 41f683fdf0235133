"""Steps of a plan: their order, and the references in their calls that are known already.

A resource's own steps run in a row, after the steps of the resources that it refers to.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from graphlib import TopologicalSorter
from typing import Any

from msgspec.structs import replace

from reconciler.core.model import Action, Address, Change, Resource, StateRecord
from reconciler.core.steps import OutputRef, Step, Template
from reconciler.kinds.base import path_of, segment


def referenced_first(resources: Sequence[Resource]) -> list[Resource]:
    """Each resource after those of `resources` that it refers to, else in their order. Holds no cycles."""
    by_address = {resource.address: resource for resource in resources}
    graph = {
        address: [to.address for to in resource.references if to.address in by_address]
        for address, resource in by_address.items()
    }
    return [by_address[address] for address in TopologicalSorter(graph).static_order()]


def users_of_deleted(
    changes: Mapping[Address, Change],
    steps: Mapping[Address, Sequence[Step]],
    records: Mapping[Address, StateRecord],
) -> Mapping[Address, Sequence[Address]]:
    """By each address whose object is deleted, those that copy it, or that named it until now.

    They come first: if a copy fails, the delete would leave nothing to copy. `records`: say what an object
    that is not finished yet is copied from.
    """
    gone = {change.id: address for address, change in changes.items() if change.action is Action.DELETE}
    users: dict[Address, list[Address]] = {address: [] for address in gone.values()}
    for address, change in changes.items() if gone else ():
        if change.action is not Action.DELETE:
            values = [field.before for field in change.fields]
            for value in records[address].applied.values() if address in records else ():
                values += value.values() if isinstance(value, Mapping) else [value]
            for step in steps.get(address, ()):
                values += [*str(step.call.path).split("/"), *(step.call.body or {}).values()]
            for id in gone.keys() & {value for value in values if isinstance(value, str)}:
                users[gone[id]].append(address)
    return users


def _one_restart_per_machine(groups: Sequence[Sequence[Step]]) -> list[list[Step]]:
    """One restart call for each machine, however many volumes ask for it.

    The last of them keeps the call, after the other volumes' steps.
    """
    ordered = [list(group) for group in groups]
    keepers: dict[tuple[str, str], list[Step]] = {}
    for group in reversed(ordered):
        for step in [owing for owing in group if owing.if_owed]:
            keeper = keepers.setdefault((step.call.method, str(step.call.path)), group)
            if keeper is group:
                continue
            position = next(at for at, kept in enumerate(keeper) if kept.call == step.call)
            before = [earlier.id for earlier in group[: group.index(step)] if not earlier.if_owed][-1:]
            keeper[position] = replace(keeper[position], after=(*keeper[position].after, *before))
            group.remove(step)
    return [group for group in ordered if group]


def order_steps(
    steps: Sequence[Sequence[Step]], references: Mapping[Address, Iterable[Address]]
) -> tuple[Step, ...]:
    """All steps with `after` filled in. `steps` holds one sequence per resource.

    What a step names in `after` and this plan does not hold is nothing to wait for.
    Creates that a list could not tell apart run one after another: a lost reply must leave
    one candidate, not several. Source: DESIGN, section 5.
    """
    steps = _one_restart_per_machine(steps)
    last = {group[-1].address: group[-1].id for group in steps if group}
    planned = {step.id for group in steps for step in group}
    previous_create: dict[tuple[str, str], str] = {}
    ordered: list[Step] = []
    for group in steps:
        before: tuple[str, ...] = ()
        if group:
            before = tuple(last[to] for to in references.get(group[0].address, ()) if to in last)
        for step in group:
            after = (*(id for id in step.after if id in planned), *before)
            if step.find is not None and step.find.match:
                key = (str(step.find.read.path), str(step.find.match.get("name")))
                if key in previous_create:
                    after = (*after, previous_create[key])
                previous_create[key] = step.id
            ordered.append(replace(step, after=tuple(dict.fromkeys(after))))
            before = (step.id,)
    return tuple(ordered)


Known = Mapping[str, Mapping[str, Any]]


def resolve_known(step: Step, known: Known) -> Step:
    """`step` with the values of existing objects in its path and body. `known`: fields by address."""
    call = step.call
    if isinstance(call.path, Template):
        parts = [part if isinstance(part, str) else _path_part(part, known) for part in call.path.parts]
        call = dataclasses.replace(call, path=path_of(*parts))
    if call.body is not None:
        body = {name: _resolved(value, known) for name, value in call.body.items()}
        call = dataclasses.replace(call, body=body)
    applied = step.effect.applied
    if any(isinstance(value, Template) for value in applied.values()):
        applied = {
            name: _resolved(value, known) if isinstance(value, Template) else value
            for name, value in applied.items()
        }
    return step.replaced(applied, call=call)


def _path_part(part: OutputRef, known: Known) -> str | OutputRef:
    """A part of a path: the known value, or the reference as it is."""
    found = _resolved(part, known)
    return part if found is part else segment(str(found))


def _resolved(value: Any, known: Known) -> Any:
    """`value` with the references in it that are `known` replaced."""
    if isinstance(value, Template):
        parts = [_resolved(part, known) for part in value.parts]
        return "".join(parts) if all(isinstance(part, str) for part in parts) else value
    if not isinstance(value, OutputRef):
        return value
    found = known.get(value.source, {}).get(value.path)
    return value if found is None else found
