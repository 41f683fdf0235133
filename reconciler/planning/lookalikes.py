"""Objects beside ours that are equal in all that ours are recognised by, and that nobody owns.

A create that took effect late, a second state or a clock that jumped leave such ones: nobody would look after
them. They are named until a person says that they are meant to be there.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from reconciler.core.advice import command
from reconciler.core.diagnostics import Diagnostic, warning
from reconciler.core.model import DISMISSED, Address, Resource, StateRecord
from reconciler.kinds.base import Kind
from reconciler.planning.match import possible
from reconciler.planning.siblings import Siblings

_MOST = 5  # ids in one message


def find_lookalikes(
    kind: Kind,
    resources: Sequence[Resource],
    records: Mapping[Address, StateRecord],
    objects: Sequence[Any],
    owned: Collection[str],
    is_told: Callable[[Address], bool] = lambda address: True,
) -> Mapping[Address, Sequence[str]]:
    """The ids beside each recorded resource, at one address of those that are recognised alike (`count`).

    `resources`: all that `objects`, a list, may show. None beside one that is not recorded yet: what it may
    take is decided elsewhere. `owned`: ids that somebody owns or takes. `is_told`: where they may be named.
    """
    free = [item for item in objects if item.present and item.id not in owned]
    if not free:
        return {}
    alike: dict[tuple[tuple[str, Any], ...], list[Resource]] = defaultdict(list)
    for resource in resources:
        match = kind.match(resource.spec, resource.address)
        if match is not None:
            alike[tuple(match.items())].append(resource)
    found = {}
    for match_items, group in alike.items():
        recorded = [records[each.address] for each in group if each.address in records]
        told = [record.address for record in recorded if is_told(record.address)]
        if not told or len(recorded) < len(group):
            continue
        dismissed = {id for record in recorded for id in record.applied.get(DISMISSED, ())}
        ids = [item.id for item in possible(dict(match_items), free) if item.id not in dismissed]
        if ids:
            found[told[0]] = ids
    return found


def without_told(
    found: Mapping[Address, Sequence[str]], told: Collection[str]
) -> Mapping[Address, Sequence[str]]:
    """`found` without the ids that are `told` otherwise."""
    left = {address: [id for id in ids if id not in told] for address, ids in found.items()}
    return {address: ids for address, ids in left.items() if ids}


def lookalike_warnings(
    kinds: Mapping[str, Kind],
    found: Mapping[Address, Sequence[str]],
    resources: Mapping[Address, Resource],
    records: Mapping[Address, StateRecord],
    siblings: Siblings,
) -> Iterator[Diagnostic]:
    """A warning for each address with ids that no sibling environment has recorded, either."""
    for address, ids in sorted(found.items(), key=lambda item: str(item[0])):
        resource, kind = resources[address], kinds[address.kind]
        left = sorted(id for id in ids if siblings.owner(kind, resource, id) is None)
        if not left:
            continue
        match = kind.match(resource.spec, address) or {}
        more = f" and {len(left) - _MOST} more" if len(left) > _MOST else ""
        dismiss = command("resolve", address, *(word for id in left[:_MOST] for word in ("--dismiss", id)))
        yield warning(
            "lookalike",
            f"beside `{address}` ({records[address].id}) there is {', '.join(left[:_MOST])}{more}, "
            f"with the same {' and '.join(match)}, without a record or a manifest",
            resource.span("metadata", "name"),
            help="a create that took effect late, or a second state, may have made it: delete it by hand, or "
            f"adopt it with `metadata.id`; if it is meant to be there, run `{dismiss}`",
            advice=(dismiss,),
        )
