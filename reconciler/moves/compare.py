"""Compares recorded objects with manifests of other addresses. Pure.

A record may be what a new manifest describes if no field that the platform cannot change differs, where both
values are known, and none would have to shrink. Other fields may differ.

Names that left are paired with names that came. **The longest parts in common tell**: words and numbers of a
name, in any order (`tenant7-data` became `data-tenant7`), then in the same order, then beginning and end of
what is left (`customer` became `customers`). Where that says nothing, the smaller cost does. Where two
pairings are equally good, nothing tells: see `Pairing.clear`.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec import field as default
from pydantic import BaseModel

from reconciler.core.model import Address, Effect, Resource, StateRecord
from reconciler.core.steps import Binding
from reconciler.kinds.base import Kind
from reconciler.kinds.manifest import Field
from reconciler.kinds.roles import claim_of, holds_secrets, secret_names
from reconciler.moves.records import MOVED_FROM, another_name

MOST_COMPARED = 2_500  # pairs of names, or for each name only those are looked at that share a rare part;
_RARE = 100  # so many names at the most hold one,
ENOUGH = 10  # and so many are named where nothing tells them apart
_MOSTLY = 0.6  # of two words: below, the same beginning and end are chance

_PART = re.compile(r"[^\W\d_]+|\d+")

Likeness = tuple[int, int, int]


class Pairing(Struct, frozen=True):
    """`at`: which came. `to`: which left, the likeliest first; if not `clear`, it may as well be the next."""

    at: int
    to: Sequence[int]
    clear: bool


def pair_names(
    came: Sequence[str], left: Sequence[str], cost: Callable[[int, int], int | None]
) -> Iterator[Pairing]:
    """Each of `came` that may be one of `left`, once; a clear one takes its name from all others.

    `cost` of both places: None where the two cannot be one.
    """
    one, other = [_parts(name) for name in came], [_parts(name) for name in left]
    open_came, open_left = set(range(len(came))), set(range(len(left)))
    doubted: set[int] = set()
    if len(came) * len(left) > MOST_COMPARED:
        for pairing in _pair(one, other, cost, _sharing(one, other), doubted):
            open_came.discard(pairing.at)
            open_left -= {pairing.to[0]} if pairing.clear else set()
            yield pairing
    if len(open_came) * len(open_left) > MOST_COMPARED:
        yield from _unclear(sorted(open_came), sorted(open_left), cost)
    else:
        rest = {at: sorted(open_left) for at in sorted(open_came)}
        yield from _pair(one, other, cost, rest, doubted)


def _pair(
    one: Sequence[Sequence[str]],
    other: Sequence[Sequence[str]],
    cost: Callable[[int, int], int | None],
    near: Mapping[int, Sequence[int]],
    doubted: set[int],
) -> Iterator[Pairing]:
    """Pairs the best first. A pair is not clear where another one is as good for either side.

    `doubted`: of `left`, what something that is not clear may be; these are added.
    """
    tiers: dict[tuple[Likeness, int], list[tuple[int, int]]] = defaultdict(list)
    possible: dict[int, list[int]] = defaultdict(list)
    for at, places in near.items():
        for to in places:
            price = cost(at, to)
            if price is not None:
                alike = _likeness(one[at], other[to])
                tiers[alike, -price].append((at, to))
                possible[at].append(to)
    done: set[int] = set()
    taken: set[int] = set()
    for tier in sorted(tiers, reverse=True):
        by_came: dict[int, list[int]] = defaultdict(list)
        by_left: dict[int, list[int]] = defaultdict(list)
        for at, to in tiers[tier]:
            if at not in done and to not in taken:
                by_came[at].append(to)
                by_left[to].append(at)
        for at, places in by_came.items():
            clear = len(places) == 1 and len(by_left[places[0]]) == 1 and places[0] not in doubted
            rest = [to for to in possible[at] if to not in places] if clear else []
            (taken if clear else doubted).update(places)
            done.add(at)
            yield Pairing(at, [*places, *rest], clear)


def _unclear(
    came: Sequence[int], left: Sequence[int], cost: Callable[[int, int], int | None]
) -> Iterator[Pairing]:
    """Some of the names that each may be, from its own place on: so many have nothing in common."""
    for place, at in enumerate(came):
        found: list[int] = []
        for step in range(len(left)):
            to = left[(place + step) % len(left)]
            if cost(at, to) is not None:
                found.append(to)
                if len(found) == ENOUGH:
                    break
        if found:
            yield Pairing(at, found, clear=False)


def _sharing(one: Sequence[Sequence[str]], other: Sequence[Sequence[str]]) -> dict[int, list[int]]:
    """For each of `one`, the places of `other` with the most in common of what few have."""
    holding: dict[str, list[int]] = defaultdict(list)
    for place, parts in enumerate(other):
        for part in set(parts):
            holding[part].append(place)
    near = {}
    for at, parts in enumerate(one):
        shared: Counter[int] = Counter()
        for part in set(parts):
            places = holding.get(part, ())
            if len(places) <= _RARE:
                for place in places:
                    shared[place] += len(part)
        near[at] = [place for place, _ in shared.most_common(ENOUGH)]
    return near


def _likeness(parts: Sequence[str], others: Sequence[str]) -> Likeness:
    """Characters in common, the more telling first."""
    rest, others_rest = [], list(others)
    shared = 0
    for part in parts:
        if part in others_rest:
            others_rest.remove(part)
            shared += len(part)
        else:
            rest.append(part)
    ends = _ends("".join(rest), "".join(others_rest))
    return shared, _in_order(parts, others) if shared else 0, ends


def _in_order(parts: Sequence[str], others: Sequence[str]) -> int:
    """Characters of the longest sequence of parts that both have, in this order."""
    best = [0] * (len(others) + 1)
    for part in parts:
        before = 0
        for place, other in enumerate(others, 1):
            above = best[place]
            best[place] = before + len(part) if part == other else max(above, best[place - 1])
            before = above
    return best[-1]


def _ends(one: str, other: str) -> int:
    """Characters that both begin and end with, if that is most of them: else it is chance."""
    shorter = min(len(one), len(other))
    start = next((at for at in range(shorter) if one[at] != other[at]), shorter)
    end = 0
    while end < shorter - start and one[-1 - end] == other[-1 - end]:
        end += 1
    return start + end if 2 * (start + end) >= _MOSTLY * (len(one) + len(other)) else 0


def _parts(name: str) -> list[str]:
    """Words in lower case, and numbers without the zeros before them."""
    return [part.lstrip("0") or "0" if part.isdigit() else part for part in _PART.findall(name.lower())]


# The field of a record that an apply has seen leave the manifests: what comes later is not its other half.
LEFT = "left the manifests"

Alias = Callable[[Address, Address], bool]


def only_left(binding: Binding) -> bool:
    """Whether all that it records is that the manifest has left."""
    return binding.applied == {LEFT: True}


class Sameness:
    """Compares new manifests with records that left, of one kind and app, by their places.

    Each combination of values is compared once: thousands of both are mostly alike.
    """

    def __init__(
        self, kind: Kind, alias: Alias, came: Sequence[Resource], left: Sequence[Sequence[StateRecord]]
    ) -> None:
        self._kind = kind
        self._alias = alias
        self._came = came
        self._left = left
        written = {name for resource in came for name in resource.spec.model_fields_set}
        self._fixed = [
            fixed for fixed in kind.fields if fixed.effect is Effect.REFUSED and fixed.name in written
        ]
        # Names differ from record to record: only where they count, that makes two of them differ.
        self._apart = {LEFT, MOVED_FROM, *(watch.path for watch in kind.watched)}
        self._apart |= set() if "name" in written else {"name"}
        numbers: dict[object, int] = {}
        dumped = [resource.spec.model_dump_json(exclude_unset=True) for resource in came]
        self._text = "\n".join(set(dumped))
        self._wants = [
            _numbers(numbers, self._wanted(resource), text)
            for resource, text in zip(came, dumped, strict=True)
        ]
        self._knows = [_numbers(numbers, *zip(*map(self._known, records), strict=True)) for records in left]
        self._possible: dict[tuple[int, int], bool] = {}
        self._found: dict[tuple[int, int], list[str] | None] = {}

    def differing(self, at: int, to: int) -> list[str] | None:
        """The fields in which what left differs from what came; None where the two cannot be one."""
        (fixed, want), (known_fixed, known) = self._wants[at], self._knows[to]
        possible = self._possible.get((fixed, known_fixed))
        if possible is None:
            possible = any(self._may_be(self._came[at], record) for record in self._left[to])
            self._possible[fixed, known_fixed] = possible
        if not possible:
            return None
        if (want, known) not in self._found:
            self._found[want, known] = differing(self._kind, self._alias, self._came[at], self._left[to])
        return self._found[want, known]

    def _may_be(self, resource: Resource, record: StateRecord) -> bool:
        """Whether no fixed field and no name tells the two apart."""
        return _differing(self._fixed, resource.spec, record.applied) is not None and not another_name(
            self._kind, resource, record
        )

    def _wanted(self, resource: Resource) -> str:
        """The values of `resource` that no other object can have, as one text."""
        fields = resource.spec.model_fields_set
        values = {
            field.name: getattr(resource.spec, field.name) for field in self._fixed if field.name in fields
        }
        return repr((values, self._names(resource, None)))

    def _known(self, record: StateRecord) -> tuple[str, str]:
        """The values of `record` that cannot change, and all of its values, as two texts."""
        fixed = [record.applied.get(field.name) for field in self._fixed]
        names = self._names(None, record)
        named = record.id and record.id in self._text
        items = sorted(item for item in record.applied.items() if item[0] not in self._apart)
        return repr((fixed, names)), repr((items, names, record.id if named else ""))

    def _names(self, resource: Resource | None, record: StateRecord | None) -> list[str]:
        """The names that the platform knows the object by; none where it goes by ids."""
        return sorted(secret_names(self._kind, resource, record)) if holds_secrets(self._kind) else []


def differing(
    kind: Kind, alias: Alias, resource: Resource, records: Sequence[StateRecord]
) -> list[str] | None:
    """The fields in which the first of `records` that `resource` may be differs; None: it is none."""
    for record in records:
        if another_name(kind, resource, record) or not kind.fits(resource.spec, record, alias):
            continue
        found = _differing(kind.fields, resource.spec, record.applied)
        if found is not None:
            return found
    return None


def _numbers(numbers: dict[object, int], fixed: object, whole: object) -> tuple[int, int]:
    """Small numbers for values that are long to compare, the same for the same."""
    first = numbers.setdefault(fixed, len(numbers))
    return first, numbers.setdefault((first, whole), len(numbers))


def _differing(fields: Sequence[Field], spec: BaseModel, applied: Mapping[str, object]) -> list[str] | None:
    """Names of the fields that differ from the record; None where it cannot be the same object."""
    differing = []
    for field in fields:
        if field.name not in spec.model_fields_set:
            continue
        want, known = getattr(spec, field.name), applied.get(field.name)
        if want is None or known is None or known == want:
            continue
        if field.equal is not None and field.equal(want, known):
            continue
        if isinstance(want, BaseModel) and want.model_dump(exclude_none=True) == known:
            continue
        if field.effect is Effect.REFUSED or (field.effect is Effect.GROW and _shrinks(want, known)):
            return None
        differing.append(field.name)
    return differing


def _shrinks(want: object, known: object) -> bool:
    """Whether the wanted size, or the end of its range, is smaller than the known one."""
    largest = getattr(want, "max", want)
    return isinstance(largest, int) and isinstance(known, int | float) and largest < known


class OtherManifests(Struct, frozen=True):
    """The answers that planning needs about records whose manifest is not among the resources of a plan.

    `not_given`: the manifest is in a file that was not given, or was when the record was written.
    `gone`: those of them that no file declares any more; looked up for the `questions` of a plan only.
    `moved`: for an address that a Moved manifest in such a file leaves, that manifest and its file.
    """

    not_given: frozenset[Address] = frozenset()
    gone: frozenset[Address] = frozenset()
    moved: Mapping[Address, str] = default(default_factory=dict)


class Question(Struct, frozen=True):
    """Records of one kind and app next to new resources of the same kind and app.

    `suspects`: those whose object a new resource may describe. `declared`: those of which it must be known
    whether a file that was not given declares them, since one of the suspects depends on it.
    """

    suspects: Sequence[StateRecord]
    declared: Sequence[StateRecord]


def questions(
    kinds: Mapping[str, Kind],
    resources: Iterable[Resource],
    records: Mapping[Address, StateRecord],
    unwanted: Iterable[StateRecord],
    not_given: Collection[Address],
) -> Iterator[Question]:
    """Yields the questions about other files on which a plan of `resources` depends.

    There are none where no new resource may be a record's.

    `unwanted`: the records that none of `resources` is about. This is asked before the platform is read,
    so it asks rather too much: a new resource may turn out to adopt an object.
    """
    new: dict[tuple[str, str | None], dict[Address, Resource]] = defaultdict(dict)
    for resource in resources:
        address = resource.address
        if address not in records:
            new[address.kind, address.app].setdefault(address._replace(ordinal=0), resource)
    left: dict[tuple[str, str | None], list[StateRecord]] = defaultdict(list)
    for record in unwanted:
        if (record.address.kind, record.address.app) in new:
            left[record.address.kind, record.address.app].append(record)
    for group, leavers in left.items():
        question = _question(kinds[group[0]], list(new[group].values()), leavers, records, not_given)
        if question.suspects:
            yield question


def _question(
    kind: Kind,
    new: Sequence[Resource],
    leavers: Sequence[StateRecord],
    records: Mapping[Address, StateRecord],
    not_given: Collection[Address],
) -> Question:
    """The question about one kind and app. Without suspects it need not be asked."""
    named: set[Address] = set()

    def alias(old: Address, new: Address) -> bool:
        """Any two may be one: which old addresses that depends on is noted."""
        if old != new and old in not_given:
            named.add(old)
        return True

    claims = {
        claim_of(kind, resource.adopt_id, resource.spec, None)
        for resource in new
        if resource.adopt_id is not None
    }
    suspects = [
        record
        for record in leavers
        # No `any`: every pair is compared, so that each address that one depends on is noted.
        if sum(differing(kind, alias, resource, [record]) is not None for resource in new)
        or (claims and claim_of(kind, record.id, None, record) in claims)
    ]
    asked = dict.fromkeys(
        record.address for record in suspects if record.address in not_given
    ) | dict.fromkeys(sorted(named))
    return Question(suspects, [records[address] for address in asked])
