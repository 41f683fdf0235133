"""The request for a plan, and its subjects: all that manifests and records say of each address.

`Subjects` is worked out once from a `PlanRequest`. It knows which resources the plan is about, which records
have no manifest any more, which object belongs to which address, and which read shows it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache, cached_property, partial
from typing import Any

from msgspec import Struct, field

from reconciler.core.context import Context
from reconciler.core.diagnostics import Diagnostic
from reconciler.core.lookup import Matches
from reconciler.core.model import Address, Resource, StateRecord, took_s
from reconciler.core.steps import Read
from reconciler.kinds.base import Kind, Subject
from reconciler.kinds.roles import OnService, claim_of, listed, located
from reconciler.moves.compare import OtherManifests
from reconciler.planning.conflicts import Siblings, secret_setters, wanted_powers
from reconciler.planning.declared import in_force


class PlanRequest(Struct, frozen=True):
    """Everything that a plan is made from, except the answers to its reads and the values of secrets.

    `id`: of the plan. `context`: also of the state that `records` are from; its time is that of our clock, by
    which records are dated. `records`: as they are once Moved manifests are followed.
    `undecided`: addresses about which nothing may be decided, and why, such as a call of unknown outcome.
    `focus`: the only addresses that the plan is about; None for all. What they refer to is read as well.
    `siblings`: what other environments have recorded, where the plan may take anything over.
    `approved_deletes`: addresses of objects that a person wants deleted, whatever has come in their place;
    None for a plan that is only looked at, or signed: then people decide about all of its deletes.
    `extended_gb`: see `Subject`.
    """

    id: str
    context: Context
    kinds: Mapping[str, Kind]
    resources: Sequence[Resource]
    records: Mapping[Address, StateRecord]
    capabilities: frozenset[str]
    undecided: Mapping[Address, Diagnostic] = field(default_factory=dict)
    focus: Collection[Address] | None = None
    other_manifests: OtherManifests = field(default_factory=OtherManifests)
    siblings: Siblings = field(default_factory=Siblings)
    approved_deletes: Collection[str] | None = ()
    extended_gb: Mapping[Address, int] = field(default_factory=dict)


_NO_SETTERS: Mapping[str, Sequence[Address]] = {}


class Subjects:
    """All addresses of a request.

    `resources`: with the ignores that are in force. `expired`: a warning for each ignore that is over.
    `left`: records in focus that no manifest names any more. `kept`: records in focus whose kind is unknown.
    `outside`: other records without a manifest among those that were given, about which the plan is not.
    `owned`: the address of each object that a record or a
    `metadata.id` claims. `referenced`: addresses that any resource refers to; `needed`: those that a
    resource in focus refers to.
    """

    def __init__(self, request: PlanRequest) -> None:
        self.request = request
        checked = [in_force(resource, request.context.at) for resource in request.resources]
        self.resources = {resource.address: resource for resource, _ in checked}
        self.expired = [(resource.address, warnings) for resource, warnings in checked if warnings]
        self.referenced: set[Address] = set()
        self.needed: set[Address] = set()
        for address, resource in self.resources.items():
            if not resource.references:
                continue
            targets = [to.address for to in resource.references]
            self.referenced.update(targets)
            if self.in_focus(address):
                self.needed.update(targets)
        self.left: list[StateRecord] = []
        self.kept: list[StateRecord] = []
        self.outside: list[StateRecord] = []
        for address, record in request.records.items():
            if address in self.resources:
                continue
            if not self.in_focus(address) or address in request.other_manifests.not_given:
                self.outside.append(record)
            elif address.kind in request.kinds:
                self.left.append(record)
            else:
                self.kept.append(record)
        self.owned = self._owned()
        self.setters = secret_setters(request.kinds, self.resources, request.records)
        self._took_s = cache(partial(took_s, request.records.values()))
        not_given = request.other_manifests.not_given
        self._powers = wanted_powers(request.kinds, self.resources, request.records, not_given)

    def in_focus(self, address: Address) -> bool:
        """Whether the plan is about `address`."""
        return self.request.focus is None or address in self.request.focus

    def alike(self, address: Address) -> Iterator[Address]:
        """The addresses without a record whose object a list cannot tell from that of `address`."""
        match = self._match(address)
        if match is None:
            return
        addresses, matches = self._unrecorded.get((address.kind, address.app), ((), Matches(())))
        for place in matches.possible(match.get):
            if addresses[place] != address:
                yield addresses[place]

    @cached_property
    def _unrecorded(self) -> Mapping[tuple[str, str | None], tuple[Sequence[Address], Matches]]:
        """The addresses without a record that a list shows, by kind and app, with what identifies them."""
        found: dict[tuple[str, str | None], dict[Address, Mapping[str, Any]]] = {}
        for address in self.resources:
            match = self._match(address) if address not in self.request.records else None
            if match is not None:
                found.setdefault((address.kind, address.app), {})[address] = match
        return {group: (list(matches), Matches(list(matches.values()))) for group, matches in found.items()}

    def kind(self, address: Address) -> Kind:
        """The kind of `address`."""
        return self.request.kinds[address.kind]

    def read_of(self, resource: Resource) -> Read | None:
        """The GET whose answer shows the object of `resource`; None where nothing shows it."""
        address = resource.address
        record = self.request.records.get(address)
        id = record.id if record is not None else resource.adopt_id
        kind, capabilities = self.kind(address), self.request.capabilities
        read = located(kind, address, id, capabilities, resource.spec, record)
        return read or (None if id else listed(kind, resource, capabilities, self.resources))

    def read_alone(self, address: Address, live: Any) -> Read | None:
        """The GET that shows all of `live`, which was found in a list; None where the list shows all."""
        kind = self.kind(address)
        return located(kind, address, live.id, self.request.capabilities) if kind.read_alone else None

    def read_of_left(self, record: StateRecord) -> Read | None:
        """The GET that shows the object of a record without a manifest; None where nothing shows it."""
        kind = self.kind(record.address)
        return located(kind, record.address, record.id, self.request.capabilities, record=record)

    def subject(self, address: Address, live: Any = None, at: datetime | None = None) -> Subject:
        """`live`: its object on the platform, as of the platform's time `at`; None where none was seen."""
        records, resource = self.request.records, self.resources.get(address)
        targets = [to.address for to in resource.references] if resource is not None else []
        return Subject(
            address,
            resource,
            records.get(address),
            live,
            at or self.request.context.at,
            self.request.capabilities,
            powers=self._powers.get(address.app, {}),
            sets=self.setters.get(address.app, _NO_SETTERS),
            others_s=self._took_s(address.kind),
            referred={to: records[to].id for to in targets if to in records},
            extended_gb=self.request.extended_gb.get(address, 0),
        )

    def _match(self, address: Address) -> Mapping[str, Any] | None:
        """The fields that identify the object of `address` in a list; None where an id does, or nothing."""
        resource = self.resources.get(address)
        if resource is None or resource.adopt_id is not None:
            return None
        return self.kind(address).match(resource.spec, address)

    def _owned(self) -> Mapping[str, Address]:
        """The address that claims each object, by record or by `metadata.id`."""
        kinds = self.request.kinds
        owned = {
            claim_of(kinds[address.kind], resource.adopt_id, resource.spec, None): address
            for address, resource in self.resources.items()
            if resource.adopt_id
        }
        with_service = {name for name, kind in kinds.items() if kind.role(OnService) is not None}
        for address, record in self.request.records.items():
            known = address.kind in with_service
            owned[claim_of(kinds[address.kind], record.id, None, record) if known else record.id] = address
        return owned
