"""Matches live objects with resources, without ever guessing.

A record's id decides; `metadata.id` adopts exactly that object; else a resource
takes an unowned object that matches it, but only when that is unambiguous.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from reconciler.core.advice import command
from reconciler.core.diagnostics import Diagnostic, error
from reconciler.core.lookup import Lookup, matching
from reconciler.core.model import Address, Resource, StateRecord
from reconciler.kinds.base import Kind
from reconciler.kinds.roles import claim_of
from reconciler.planning.conflicts import bad_object

_MOST_NAMED = 20  # ids in one message, of which there is one for each resource


class Matched(Struct, frozen=True):
    """`live` is None when there is no object; then `problem` may say why none may be taken or made."""

    live: Any = None
    problem: Diagnostic | None = None


def match_objects(
    kind: Kind,
    resources: Sequence[Resource],
    records: Mapping[Address, StateRecord],
    owned: Mapping[str, Address],
    shown: Lookup,
) -> dict[Address, Matched]:
    """One entry per resource. `owned`: who makes a claim (`claim_of`), by record or by `metadata.id`."""
    found: dict[Address, Matched] = {}
    groups: dict[tuple[tuple[str, Any], ...], list[Resource]] = {}
    for resource in resources:
        record = records.get(resource.address)
        if record is not None:
            found[resource.address] = _recorded(kind, resource, record, shown.by_id)
        elif resource.adopt_id is not None:
            found[resource.address] = _adopt_by_id(kind, resource, shown.by_id, owned)
        else:
            match = kind.match(resource.spec, resource.address)
            if match is None:
                found[resource.address] = Matched()
            else:
                groups.setdefault(tuple(match.items()), []).append(resource)
    if groups:
        free = Lookup([item for item in shown.objects if item.present and item.id not in owned])
        taken = {matched.live.id for matched in found.values() if matched.live is not None}
        # The most specific match first: a manifest without a region takes what the others leave.
        for key in sorted(groups, key=len, reverse=True):
            left = [item for item in free.possible(dict(key)) if item.id not in taken]
            assigned = _assign(groups[key], dict(key), left)
            taken |= {matched.live.id for matched in assigned.values() if matched.live is not None}
            found |= assigned
        foreign = Lookup(_of_other_apps(shown.objects, owned, resources[0].address))
        for key, group in groups.items() if foreign.objects else ():
            for resource in group:
                if found[resource.address] == Matched():
                    found[resource.address] = _unless_foreign(resource, foreign.possible(dict(key)), owned)
    return found


def match_unseen(
    kind: Kind, resource: Resource, record: StateRecord | None, owned: Mapping[str, Address]
) -> Matched:
    """The match where no read shows objects of this kind: only ids can be compared."""
    if record is not None:
        return _recorded(kind, resource, record, {})
    return Matched(problem=_owned_by_another(kind, resource, owned))


def _assign(
    resources: Sequence[Resource], match: Mapping[str, Any], perhaps: Sequence[Any]
) -> dict[Address, Matched]:
    """Assign candidates: as many as one manifest's `count` asks for, or fewer.

    Several manifests share none.

    `perhaps`: the free objects that may match. One that may match, or may not, is neither taken nor passed
    over: a person has to say.
    """
    candidates = matching(match, perhaps)
    bad = next((item for item in perhaps if item.bad_id), None)
    if bad is not None:
        return {resource.address: Matched(problem=bad_object(resource, bad)) for resource in resources}
    manifests = {resource.address._replace(ordinal=0) for resource in resources}
    if len(perhaps) > len(candidates) or (
        candidates and (len(manifests) > 1 or len(candidates) > len(resources))
    ):
        ids = sorted(item.id for item in perhaps)
        return {resource.address: Matched(problem=_ambiguous(resource, ids)) for resource in resources}
    live: list[Any] = [*candidates, *[None] * (len(resources) - len(candidates))]
    return {resource.address: Matched(item) for resource, item in zip(resources, live, strict=True)}


def _ambiguous(resource: Resource, ids: Sequence[str]) -> Diagnostic:
    """The error for several objects that a resource may be."""
    more = f" and {len(ids) - _MOST_NAMED} more" if len(ids) > _MOST_NAMED else ""
    return error(
        "ambiguous-match",
        f"it is not clear which unowned object on the platform is `{resource.address}`: "
        f"{', '.join(ids[:_MOST_NAMED])}{more}",
        resource.span("metadata", "name"),
        help="set `metadata.id` to the id of the right one"
        + (
            ", or set `spec.count` to the number that should exist" if hasattr(resource.spec, "count") else ""
        ),
    )


def _recorded(kind: Kind, resource: Resource, record: StateRecord, by_id: Mapping[str, Any]) -> Matched:
    """The object of a record, unless the manifest names another one."""
    named = ".".join(map(str, kind.id_path))
    if resource.adopt_id in (None, record.id):
        return _shown(resource, by_id.get(record.id))
    forget = command("state", "forget", resource.address)
    return Matched(
        problem=error(
            "adopt-conflict",
            f"`{resource.address}` is recorded as {record.id}, but `{named}` names {resource.adopt_id}",
            resource.span(*kind.id_path),
            help=f"correct `{named}`, or run `{forget}` first: {record.id} then does not change",
            advice=(forget,),
        )
    )


def _shown(resource: Resource, live: Any) -> Matched:
    """The object, unless its id cannot be used."""
    problem = bad_object(resource, live) if live is not None else None
    return Matched(problem=problem) if problem is not None else Matched(live)


def _adopt_by_id(
    kind: Kind, resource: Resource, by_id: Mapping[str, Any], owned: Mapping[str, Address]
) -> Matched:
    """The object that the manifest names by its id."""
    problem = _owned_by_another(kind, resource, owned)
    if problem is not None:
        return Matched(problem=problem)
    live = by_id.get(resource.adopt_id or "")
    if live is not None and live.present:
        return _shown(resource, live)
    named = ".".join(map(str, kind.id_path))
    return Matched(
        problem=error(
            "adopt-not-found",
            f"`{resource.address}` adopts `{resource.adopt_id}`, but the platform has no such object",
            resource.span(*kind.id_path),
            help=f"correct `{named}`; without `metadata.id`, a new object is created"
            if kind.id_path[0] == "metadata"
            else f"correct `{named}`, or `metadata.app`",
        )
    )


def _of_other_apps(objects: Sequence[Any], owned: Mapping[str, Address], address: Address) -> list[Any]:
    """The objects in the list of `address` that an address of another app owns.

    They differ from ordinary namesakes: another app claims them.
    """
    found = []
    for item in objects:
        owner = owned.get(item.id, address)
        if item.present and owner.kind == address.kind and owner.app != address.app:
            found.append(item)
    return found


def _unless_foreign(resource: Resource, foreign: Sequence[Any], owned: Mapping[str, Address]) -> Matched:
    """No match, and an error where an object that fits has its address in another app."""
    if not foreign:
        return Matched()
    address, id = resource.address, foreign[0].id
    forget = command("state", "forget", owned[id])
    return Matched(
        problem=error(
            "adopt-conflict",
            f"`{address}` matches {id} in the list of app `{address.app}`, but {id} is `{owned[id]}` already",
            resource.span("metadata", "name"),
            help="one object has one address: find out on the platform which app has it; if the other one is "
            f"wrong, remove its manifest and run `{forget}`",
            advice=(forget,),
        )
    )


def _owned_by_another(kind: Kind, resource: Resource, owned: Mapping[str, Address]) -> Diagnostic | None:
    """The error for an id that another address has; None for a free one."""
    claim = claim_of(kind, resource.adopt_id, resource.spec, None) if resource.adopt_id else ""
    owner = owned.get(claim, resource.address)
    if owner == resource.address:
        return None
    forget = command("state", "forget", owner)
    return error(
        "adopt-conflict",
        f"`{resource.address}` adopts `{resource.adopt_id}`, which is already recorded as `{owner}`",
        resource.span(*kind.id_path),
        help=f"correct `{'.'.join(map(str, kind.id_path))}`, or run `{forget}` first",
        advice=(forget,),
    )
