"""The owner of a live object: manifests that declare it, the state that records it, policies that fit it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec import Struct

from reconciler.core.advice import Command, command
from reconciler.core.lookup import Matches
from reconciler.core.model import Address, Lifecycle, Resource, StateRecord
from reconciler.kinds.base import Kind
from reconciler.kinds.roles import Declared, HasObjectives, Importable, object_of, secret_names
from reconciler.manifests.writing.write import in_comment
from reconciler.moves.records import former_addresses
from reconciler.planning.conflicts import Siblings
from reconciler.policies import find_policies
from reconciler.policies.giving import Given, Giving

DISAGREEMENT = object()  # in place of the value where two policies differ


class Live(Struct, frozen=True):
    """One live object. `place`: its app, or the organization where it was listed."""

    kind: Importable
    place: str
    item: Any  # a wire object

    @property
    def id(self) -> str:
        """The id on the platform."""
        return str(self.item.id)

    @property
    def key(self) -> tuple[str, str, str]:
        """Identifies the object. Names of secrets are unique in their app only."""
        return (self.kind.name, self.place if self.kind.in_app else "", self.id)

    def __str__(self) -> str:
        where = f" of app `{self.place}`" if self.kind.in_app else ""
        shown = repr(self.id) if self.item.bad_id else self.id
        return f"{self.kind.name} {shown}{where}"


class Skipped(Struct, frozen=True):
    """An object that gets no manifest. `why`:

    known      a manifest or a comment has it
    recorded   only the state has it
    meant      a manifest may mean it, and does not say so
    gone       it is being destroyed, or was
    refused    no manifest can describe it
    """

    live: Live
    why: Literal["known", "recorded", "meant", "gone", "refused"]
    reason: str
    advice: tuple[Command, ...] = ()  # the reason's commands


@dataclass(slots=True)
class Known:
    """The manifests and records. `policies` give defaults and declare moves.

    `records`: as they are after these moves. `siblings`: records of other environments. Mutable: it keeps
    what it has looked up.
    """

    resources: Sequence[Resource]
    records: Mapping[Address, StateRecord]
    policies: Sequence[Resource]
    kinds: Mapping[str, Kind]
    skeletons: frozenset[str] = frozenset()  # addresses in comments of the manifests
    other_environments: frozenset[Address] = frozenset()  # addresses in manifests of other environments
    siblings: Siblings = field(default_factory=Siblings)
    _declared: dict[Address, Resource] = field(init=False)
    _owners: dict[tuple[str, str], Address] = field(init=False)
    _unbound: dict[tuple[str, str | None], list[Resource]] = field(init=False, default_factory=dict)
    _secrets: dict[tuple[str | None, str], Address] = field(init=False, default_factory=dict)
    _former: dict[Address, list[Address]] = field(init=False)
    _wanted: dict[tuple[str, str | None], tuple[Matches, list[Resource]]] = field(
        init=False, default_factory=dict
    )
    _giving: Giving = field(init=False)
    _given: dict[tuple[str, str | None], Sequence[Given]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._owners = {(address.kind, record.id): address for address, record in self.records.items()}
        self._giving = Giving(self.policies, find_policies())
        self._former = former_addresses(self.policies)
        for resource in self.resources:
            address = resource.address
            if resource.adopt_id is not None:
                self._owners[address.kind, resource.adopt_id] = address
            elif address not in self.records:
                self._unbound.setdefault((address.kind, address.app), []).append(resource)
        self._declared = {resource.address: resource for resource in self.resources}
        for address in (*self._declared, *self.records):
            kind = self.kinds.get(address.kind)
            if kind is not None:
                for name in secret_names(kind, self._declared.get(address), self.records.get(address)):
                    self._secrets.setdefault((address.app, name), address)

    def taken(self) -> set[Address]:
        """Addresses that a new manifest cannot have."""
        declared = {resource.address for resource in (*self.resources, *self.policies)}
        left = {address for addresses in self._former.values() for address in addresses}
        return declared | self.records.keys() | self.other_environments | left

    def apps(self) -> list[str]:
        """The apps that manifests and records name."""
        return sorted({address.app for address in self.taken() - self.other_environments if address.app})

    def is_new(self, live: Live) -> bool:
        """Whether no manifest or record has the id of `live`."""
        return bool(live.item.present) and self.owner(live) is None

    def owner(self, live: Live) -> Address | None:
        """The address of a manifest, or else of a record, that has the id of `live`."""
        return self._owners.get((live.kind.name, live.id))

    def left_out(self, live: Live, declared: Declared) -> Skipped | None:
        """The reason why `live` is not new: its owner, or the manifest that may mean it. None: it is new."""
        kind, app = live.kind, live.place if live.kind.in_app else None
        if declared.skeleton:
            return self._known_name(live, Address(kind.name, live.id, app))
        owner = self.owner(live)
        if owner is not None and owner in self._declared:
            said = "declared" if self._declared[owner].adopt_id == live.id else "recorded"
            return Skipped(live, "known", f"it is {said} as `{owner}`")
        if owner is not None:
            plan = command("plan")
            why = (
                f"it is recorded as `{owner}`, which has no manifest here: `{plan}` says whether a manifest "
                "was renamed; if none was, write its manifest again"
            )
            return Skipped(live, "recorded", why, (plan,))
        known_as = object_of(kind, Address(kind.name, live.id, app), live.id, None, None)
        if (sibling := self.siblings.owners.get(known_as)) is not None:
            environment, owner = sibling
            return Skipped(live, "recorded", f"environment `{environment}` has recorded it as `{owner}`")
        meant = self._first_meant(kind, app, live.item)
        if meant is None:
            return None
        cure = ": to adopt it, set `metadata.id` of that manifest"
        if live.item.bad_id:
            cure = ", but a manifest cannot contain its id: look at the object on the platform"
        return Skipped(live, "meant", f"`{meant.address}` may be this object{cure}")

    def _first_meant(self, kind: Kind, app: str | None, item: Any) -> Resource | None:
        """The first manifest without an object that may mean `item`."""
        group = (kind.name, app)
        if group not in self._wanted:
            unbound = self._unbound.get(group, ())
            wanted = [(match, resource) for resource in unbound for match in self._matches(kind, resource)]
            self._wanted[group] = Matches([match for match, _ in wanted]), [found for _, found in wanted]
        matches, resources = self._wanted[group]
        places = matches.possible(lambda name: getattr(item, name, None))
        return resources[places[0]] if places else None

    def _matches(self, kind: Kind, resource: Resource) -> Iterator[Mapping[str, Any]]:
        """The fields of its object: under its name, or under a former one."""
        at = resource.address
        former = dict.fromkeys((at, *self._former.get(at, ()), *self._former.get(at._replace(ordinal=0), ())))
        for address in former:
            match = kind.match(resource.spec, address)
            if match is None:
                match = {"name": getattr(resource.spec, "name", None) or address.name}
            yield match

    def _known_name(self, live: Live, address: Address) -> Skipped | None:
        """The owner of an object that has no id but its name."""
        setter = self._secrets.get((address.app, live.id))
        if setter is not None:
            return Skipped(live, "known", f"it is set by `{setter}`")
        if in_comment(str(address)) in self.skeletons:
            return Skipped(live, "known", f"`{address}` is already a comment in the manifests")
        return None

    def given(self, live: Live) -> dict[str, Any]:
        """The values that policies give if the manifest is silent; DISAGREEMENT where they differ."""
        found: dict[str, Any] = {}
        for _, values in self._given_by_each(live):
            for name, value in values.items():
                found[name] = value if found.get(name, value) == value else DISAGREEMENT
        return found

    def objectives(self, objects: Iterable[Live]) -> list[tuple[Resource, int]]:
        """The policies with objectives for `objects`, each with the number of these objects."""
        counts: Counter[int] = Counter()
        for live in objects:
            role = live.kind.role(HasObjectives)
            for index, values in self._given_by_each(live):
                counts[index] += role is not None and not values.keys().isdisjoint(role.objectives)
        return [(self.policies[index], count) for index, count in sorted(counts.items()) if count]

    def _given_by_each(self, live: Live) -> Sequence[Given]:
        """The values by policy. They are the same for all objects of a kind in one place: none has labels."""
        app = live.place if live.kind.in_app else None
        spec = live.kind.Spec.model_construct()
        silent = Resource(Address(live.kind.name, "-", app), spec, Lifecycle(), "", {})
        if (live.kind.name, app) not in self._given:
            found = [given for given in self._giving.given(silent) if given.values]
            self._given[live.kind.name, app] = found
        return self._given[live.kind.name, app]
