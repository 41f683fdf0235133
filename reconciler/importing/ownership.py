"""Whose a live object is already: what manifests declare, what the state records, what policies give."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec import Struct

from reconciler.core.advice import Command, command
from reconciler.core.lookup import Matches
from reconciler.core.model import Address, Lifecycle, Resource, StateRecord
from reconciler.kinds.base import Kind
from reconciler.kinds.roles import Declared, Importable, object_of, secret_names
from reconciler.manifests.writing.write import in_comment
from reconciler.moves.records import former_addresses
from reconciler.planning.conflicts import Siblings
from reconciler.policies import find_policies
from reconciler.policies.giving import Given, Giving

DISAGREEMENT = object()  # what two policies give that differ


class Live(Struct, frozen=True):
    """One present object as it was found. `place`: its app, or the organization where it was listed."""

    kind: Importable
    place: str
    item: Any  # a wire object

    @property
    def id(self) -> str:
        return str(self.item.id)

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells it from all others: names of secrets are unique in their app only."""
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
    refused    no manifest can stand for it
    """

    live: Live
    why: Literal["known", "recorded", "meant", "gone", "refused"]
    reason: str
    advice: tuple[Command, ...] = ()  # the reason's commands


@dataclass(slots=True)
class Known:
    """What the manifests declare and the state records. `policies` give defaults and tell what moved.

    `records`: as they are once those moves are carried out. `siblings`: what other environments record.
    """

    resources: Sequence[Resource]
    records: Mapping[Address, StateRecord]
    policies: Sequence[Resource]
    kinds: Mapping[str, Kind]
    skeletons: frozenset[str] = frozenset()  # addresses in the manifests' comments, as these show them
    elsewhere: frozenset[Address] = frozenset()  # addresses that other environments' manifests have
    siblings: Siblings = field(default_factory=Siblings)
    _declared: dict[Address, Resource] = field(init=False)
    _adopted: dict[tuple[str, str], Address] = field(init=False)
    _recorded: dict[tuple[str, str], Address] = field(init=False)
    _unbound: dict[tuple[str, str | None], list[Resource]] = field(init=False)
    _secrets: dict[tuple[str | None, str], Address] = field(init=False)
    _former: dict[Address, list[Address]] = field(init=False)
    _wanted: dict[tuple[str, str | None], tuple[Matches, list[Resource]]] = field(init=False)
    _giving: Giving = field(init=False)
    _given: dict[tuple[str, str | None], Sequence[Given]] = field(init=False)

    def __post_init__(self) -> None:
        self._recorded = {(address.kind, record.id): address for address, record in self.records.items()}
        self._adopted = {}
        self._unbound, self._secrets = {}, {}
        self._wanted, self._given = {}, {}
        self._giving = Giving(self.policies, find_policies())
        self._former = former_addresses(self.policies)
        for resource in self.resources:
            address = resource.address
            if resource.adopt_id is not None:
                self._adopted[address.kind, resource.adopt_id] = address
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
        left = {address for each in self._former.values() for address in each}
        return declared | self.records.keys() | self.elsewhere | left

    def apps(self) -> list[str]:
        """The apps that manifests and records name."""
        return sorted({address.app for address in self.taken() - self.elsewhere if address.app})

    def is_new(self, live: Live) -> bool:
        """Whether nobody has `live` already, as far as its id tells."""
        key = (live.kind.name, live.id)
        return bool(live.item.present) and key not in self._adopted and key not in self._recorded

    def left_out(self, live: Live, declared: Declared) -> Skipped | None:
        """Why `live` is not new: who has it already, or may be meant to. None: nobody."""
        kind, app = live.kind, live.place if live.kind.in_app else None
        if declared.skeleton:
            return self._known_name(live, Address(kind.name, live.id, app))
        owner = self._adopted.get((kind.name, live.id))
        if owner is not None:
            return Skipped(live, "known", f"it is declared as `{owner}`")
        owner = self._recorded.get((kind.name, live.id))
        if owner is not None and owner in self._declared:
            return Skipped(live, "known", f"it is recorded as `{owner}`")
        if owner is not None:
            plan = command("plan")
            why = (
                f"it is recorded as `{owner}`, which has no manifest here: `{plan}` says whether a manifest "
            )
            why += "was renamed; if none was, write its manifest again"
            return Skipped(live, "recorded", why, (plan,))
        there = self.siblings.owners.get(
            object_of(kind, Address(kind.name, live.id, app), live.id, None, None)
        )
        if there is not None:
            return Skipped(live, "recorded", f"environment `{there[0]}` has recorded it as `{there[1]}`")
        meant = self._first_meant(kind, app, live.item)
        if meant is None:
            return None
        cure = ": to adopt it, set `metadata.id` of that manifest"
        if live.item.bad_id:
            cure = ", but a manifest cannot contain its id: look at the object on the platform"
        return Skipped(live, "meant", f"`{meant.address}` may be this object{cure}")

    def _first_meant(self, kind: Kind, app: str | None, item: Any) -> Resource | None:
        """The first manifest without an object that `item` may be that of."""
        group = (kind.name, app)
        if group not in self._wanted:
            wanted = [
                (match, each) for each in self._unbound.get(group, ()) for match in self._matches(kind, each)
            ]
            self._wanted[group] = Matches([match for match, _ in wanted]), [each for _, each in wanted]
        matches, resources = self._wanted[group]
        places = matches.possible(lambda name: getattr(item, name, None))
        return resources[places[0]] if places else None

    def _matches(self, kind: Kind, resource: Resource) -> Iterator[Mapping[str, Any]]:
        """What its object is like: under its own name, or one that it had when the object was made."""
        at = resource.address
        former = dict.fromkeys((at, *self._former.get(at, ()), *self._former.get(at._replace(ordinal=0), ())))
        for address in former:
            match = kind.match(resource.spec, address)
            if match is None:
                match = {"name": getattr(resource.spec, "name", None) or address.name}
            yield match

    def _known_name(self, live: Live, address: Address) -> Skipped | None:
        """For what is known by its name only."""
        setter = self._secrets.get((address.app, live.id))
        if setter is not None:
            return Skipped(live, "known", f"it is set by `{setter}`")
        if in_comment(str(address)) in self.skeletons:
            return Skipped(live, "known", f"`{address}` is already a comment in the manifests")
        return None

    def given(self, live: Live) -> dict[str, Any]:
        """What policies give an object whose manifest is silent; where they disagree, what equals nothing."""
        found: dict[str, Any] = {}
        for _, values in self._given_by_each(live):
            for name, value in values.items():
                found[name] = value if found.get(name, value) == value else DISAGREEMENT
        return found

    def objectives(self, objects: Iterable[Live]) -> list[tuple[Resource, int]]:
        """The policies that want of `objects` what is not a field, and of how many."""
        counts: Counter[int] = Counter()
        for live in objects:
            fields = live.kind.Spec.model_fields.keys()
            for index, values in self._given_by_each(live):
                counts[index] += bool(values.keys() - fields)
        return [(self.policies[index], count) for index, count in sorted(counts.items()) if count]

    def _given_by_each(self, live: Live) -> Sequence[Given]:
        """The same for all objects of a kind in one place: none has labels."""
        app = live.place if live.kind.in_app else None
        spec = live.kind.Spec.model_construct()
        silent = Resource(Address(live.kind.name, "-", app), spec, Lifecycle(), "", {})
        if (live.kind.name, app) not in self._given:
            found = [given for given in self._giving.given(silent) if given.values]
            self._given[live.kind.name, app] = found
        return self._given[live.kind.name, app]
