"""Chooses the live objects that get a manifest, and their addresses."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from pydantic import ValidationError

from reconciler.core.model import SCRATCH_NAME, Address, Path
from reconciler.importing.ownership import DISAGREEMENT, Known, Live, Skipped
from reconciler.kinds.base import Kind
from reconciler.kinds.roles import Declared, HoldsData, holds_secrets

_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 63


class Entry(Struct, frozen=True):
    """A manifest to write for `live`. `comments`: by path in the manifest."""

    live: Live
    declared: Declared
    address: Address
    spec: Mapping[str, Any]
    comments: Mapping[Path, tuple[str, ...]]
    lifecycle: Mapping[str, Any] = field(default_factory=dict)


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
