"""Objects beside ours that are equal in all that ours are recognised by, and that nobody owns.

A create that took effect late, a second state or a clock that jumped leave such ones: nobody would look after
them. They are named until a person says that they are meant to be there.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from typing import Any

from reconciler.core.advice import command
from reconciler.core.diagnostics import Diagnostic, warning
from reconciler.core.lookup import Lookup
from reconciler.core.model import DISMISSED, Address, Observation, Resource, StateRecord
from reconciler.core.steps import Read
from reconciler.core.words import counted, in_a_row
from reconciler.kinds.base import Kind
from reconciler.kinds.roles import listed
from reconciler.planning.conflicts import Siblings

_MOST = 5  # ids in one message


class Lookalikes:
    """Looks for them in every list that shows recorded objects, also where each of these is read alone.

    `resources`: all that the manifests declare. `owned`: ids that somebody owns. `is_told`: where they may be
    named. `found`: their ids, at one address of those that are recognised alike (`count`). `doubted`: all of
    those addresses.
    """

    def __init__(
        self,
        kinds: Mapping[str, Kind],
        resources: Mapping[Address, Resource],
        records: Mapping[Address, StateRecord],
        capabilities: frozenset[str],
        owned: Container[str],
        is_told: Callable[[Address], bool],
    ) -> None:
        self._kinds = kinds
        self._records = records
        self._owned = owned
        self._is_told = is_told
        self._by_list: dict[Read, list[Resource]] = defaultdict(list)
        for address, resource in resources.items():
            shown_in = listed(kinds[address.kind], resource, capabilities, resources)
            if shown_in is not None:
                self._by_list[shown_in].append(resource)
        self.found: dict[Address, Sequence[str]] = {}
        self.doubted: set[Address] = set()
        self._unread: list[Diagnostic] = []

    def reads(self) -> Sequence[Read]:
        """The lists that may show some."""
        return [read for read, resources in self._by_list.items() if any(map(self._is_named, resources))]

    def look(self, read: Read, observation: Observation, taken: Container[str] = ()) -> None:
        """Note what the answer to any `read` shows. `taken`: ids that a plan takes.

        Nothing beside one that is not recorded yet: what it may take is decided elsewhere.
        """
        resources = self._by_list.get(read, ())
        named = [resource for resource in resources if self._is_named(resource)]
        if not named:
            return
        kind = self._kinds[named[0].address.kind]
        if not observation.complete:
            if kind.read_alone:
                self._unread.append(_not_looked(observation, len(named)))
            return
        present = [item for item in observation.objects if item.present]
        free = Lookup([item for item in present if item.id not in self._owned and item.id not in taken])
        if free.objects:
            self._look_among(kind, resources, {item.id for item in present}, free)

    def unread(self) -> Sequence[Diagnostic]:
        """A warning for each list without an answer that nothing else needs."""
        return sorted(self._unread, key=lambda problem: problem.message)

    def _is_named(self, resource: Resource) -> bool:
        return resource.address in self._records and self._is_told(resource.address)

    def _look_among(
        self, kind: Kind, resources: Sequence[Resource], present: Collection[str], free: Lookup
    ) -> None:
        alike: dict[tuple[tuple[str, Any], ...], list[Resource]] = defaultdict(list)
        for resource in resources:
            alike[tuple((kind.match(resource.spec, resource.address) or {}).items())].append(resource)
        for match, group in alike.items():
            records = [
                self._records[resource.address] for resource in group if resource.address in self._records
            ]
            told = [
                record.address for record in records if record.id in present and self._is_told(record.address)
            ]
            if not told or len(records) < len(group):
                continue
            dismissed = {id for record in records for id in record.applied.get(DISMISSED, ())}
            ids = [item.id for item in free.possible(dict(match)) if item.id not in dismissed]
            if ids:
                self.found[told[0]] = ids
                self.doubted.update(resource.address for resource in group)


def _not_looked(observation: Observation, recorded: int) -> Diagnostic:
    return warning(
        "unreadable",
        f"cannot look for unowned objects beside {counted(recorded, 'recorded object')}: "
        f"{observation.problem}",
        help="nothing else depends on this list, which is read because `platform.capabilities` names it",
    )


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
        more = [f"{len(left) - _MOST} more"] if len(left) > _MOST else []
        are, them, they_are = ("is", "it", "it is") if len(left) == 1 else ("are", "them", "they are")
        dismiss = command("resolve", address, *(word for id in left[:_MOST] for word in ("--dismiss", id)))
        yield warning(
            "lookalike",
            f"beside `{address}` ({records[address].id}) there {are} {in_a_row([*left[:_MOST], *more])}, "
            f"with the same {' and '.join(match)}, without a record or a manifest",
            resource.span("metadata", "name"),
            help=f"a create that took effect late, or a second state, may have created {them}: delete {them} "
            f"by hand, or adopt {them} with `metadata.id`; if {they_are} intended, run `{dismiss}`",
            advice=(dismiss,),
        )
