"""Which live objects get a manifest, and at which address.

Others have an owner: manifests that declare them, or the state that records them.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec import Struct
from msgspec import field as default
from pydantic import ValidationError

from reconciler.core.advice import Command, command
from reconciler.core.lookup import Matches
from reconciler.core.model import SCRATCH_NAME, Address, Lifecycle, Path, Resource, StateRecord
from reconciler.kinds.base import Kind
from reconciler.kinds.roles import (
    Declared,
    HoldsData,
    Importable,
    holds_secrets,
    object_of,
    secret_names,
)
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
            for index, values in self._given_by_each(live):
                counts[index] += not values.keys().isdisjoint(live.kind.objectives)
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


_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 63


class Entry(Struct, frozen=True):
    """A manifest to write for `live`. `comments`: by path in the manifest."""

    live: Live
    declared: Declared
    address: Address
    spec: Mapping[str, Any]
    comments: Mapping[Path, tuple[str, ...]]
    lifecycle: Mapping[str, Any] = default(default_factory=dict)


def sort_out(found: Iterable[Live], known: Known) -> tuple[list[Entry], list[Skipped]]:
    """Return a manifest for each new object, in the order of kinds and names; and the skipped objects."""
    new: list[tuple[Live, Declared]] = []
    skipped: list[Skipped] = []
    names: Counter[tuple[str, str, str | None]] = Counter()
    places: dict[tuple[str, str], str] = {}
    for live in found:
        given = known.given(live)
        declared = live.kind.declare(live.item, live.place, given)
        if not live.item.present:
            state = getattr(live.item, "state", None) or getattr(live.item, "status", None)
            skipped.append(Skipped(live, "gone", f"it is {state}"))
            continue
        names[live.kind.name, live.place, declared.name] += 1
        if left_out := known.left_out(live, declared):
            skipped.append(left_out)
        elif refused := (
            _unusable(live, declared)
            or declared.refused
            or _of_a_drill(live, declared)
            or _overruled(live, declared, given)
            or _listed_before(live, places)
        ):
            skipped.append(Skipped(live, "refused", refused))
        else:
            new.append((live, declared))
    new.sort(key=lambda one: (one[1].skeleton, one[0].kind.name, one[1].name or "", one[0].id))
    entries = [
        _entry(live, declared, address, names[live.kind.name, live.place, declared.name])
        for live, declared, address in _addressed(new, known.taken())
    ]
    return entries, skipped


def _listed_before(live: Live, places: dict[tuple[str, str], str]) -> str:
    """The reason for no second manifest in another app; "" for the first object with this id."""
    if holds_secrets(live.kind):  # secrets are known by their name, in their app
        return ""
    first = places.setdefault((live.kind.name, live.id), live.place)
    other = f"the platform also lists it in app `{first}`: find out which app owns it"
    return other if first != live.place else ""


def _unusable(live: Live, declared: Declared) -> str:
    """The reason why a manifest cannot describe the object or contain its id; "" if it can, or need not."""
    if declared.skeleton or declared.refused:
        return ""
    try:
        live.kind.Spec.model_validate(declared.spec)
    except ValidationError as failure:
        name = failure.errors(include_url=False, include_input=False)[0]["loc"][0]
        return f"a manifest cannot contain its `{name}`"
    return "a manifest cannot contain its id" if live.item.bad_id else ""


def _of_a_drill(live: Live, declared: Declared) -> str:
    """The reason why an object with a name that drills give is left alone; "" for any other."""
    scratch = live.kind.role(HoldsData) is not None and (declared.name or "").startswith(SCRATCH_NAME)
    return "its name is one that restore drills give" if scratch else ""


def _overruled(live: Live, declared: Declared, given: Mapping[str, Any]) -> str:
    """The reason why a policy would change the object, whose value no manifest can hold; "" if none does."""
    for name in given.keys() & live.kind.Spec.model_fields.keys() - declared.spec.keys():
        value = getattr(live.item, name, None)
        if value != given[name] and (value is not None or given[name] is DISAGREEMENT):
            return f"a policy gives it another `{name}`, and a manifest cannot contain its own ({value})"
    return ""


def _addressed(
    new: Sequence[tuple[Live, Declared]], taken: set[Address]
) -> Iterator[tuple[Live, Declared, Address]]:
    """Give each object an address of its own. The first with a name on the platform gets this name."""
    rightful: dict[int, Address] = {}
    for number, (live, declared) in enumerate(new):
        address = _address(live, declared.name or "")
        if _can_be_named(live.kind, declared.name) and address not in taken:
            rightful[number] = address
            taken.add(address)
    for number, (live, declared) in enumerate(new):
        yield live, declared, rightful.get(number) or _free(live, declared.name or "", taken)


def _address(live: Live, name: str) -> Address:
    return Address(live.kind.name, name, live.place if live.kind.in_app else None)


def _can_be_named(kind: Kind, name: str | None) -> bool:
    return name is not None and re.fullmatch(kind.name_pattern, name) is not None


def _takes_name(kind: Kind, declared: Declared) -> bool:
    """Whether `spec.name` can hold the name on the platform."""
    try:
        kind.Spec.model_validate({**declared.spec, "name": declared.name})
    except ValidationError:
        return False
    return declared.name is not None


def _free(live: Live, name: str, taken: set[Address]) -> Address:
    base, dash = file_stem(name) or live.kind.name.lower(), "-"
    if not _can_be_named(live.kind, base):  # its names are those of variables
        base, dash = re.sub(r"^(?=\d)|\W", "_", base, flags=re.ASCII), "_"
    number = 1
    while True:
        suffix = f"{dash}{number}" if number > 1 else ""
        address = _address(live, f"{base[: _LONGEST_NAME - len(suffix)]}{suffix}")
        if address not in taken:
            taken.add(address)
            return address
        number += 1


def file_stem(text: str) -> str:
    """`text` with only letters, digits and `._-`; the last three are not at its ends."""
    return _NO_NAME.sub("-", text).strip("._-")[:_LONGEST_NAME]


def _entry(live: Live, declared: Declared, address: Address, of_that_name: int) -> Entry:
    spec, comments = dict(declared.spec), dict(declared.comments)
    order = list(live.kind.Spec.model_fields)
    about = list(comments.get((), ()))
    if "name" in order and declared.name != address.name:
        if _takes_name(live.kind, declared):
            spec["name"] = declared.name
        else:
            about.append(f"its name on the platform is {declared.name!r}, which a manifest cannot contain")
    if of_that_name > 1:
        about.append(
            f"one of {of_that_name} that are called {declared.name!r} on the platform: {declared.apart}"
        )
    if declared.skeleton:
        shown = address._replace(name=declared.name or address.name)  # by which another import knows it
        about.insert(0, f"{shown} is set on the platform; {about.pop(0)}")
    if about:
        comments[()] = tuple(about)
    spec = {name: spec[name] for name in sorted(spec, key=order.index)}
    return Entry(live, declared, address, spec, comments)
