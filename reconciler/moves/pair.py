"""Which of the names that left became which of those that came. Pure text.

**The longest parts in common tell**: words and numbers of a name, in any order (`tenant7-data` became
`data-tenant7`), then in the same order, then beginning and end of what is left (`customer` became
`customers`). Where that says nothing, the smaller cost does. Where two pairings are equally good, nothing
tells: see `Pairing.clear`.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

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
    """From the best pairs to the worst; whatever is as good as another one for either side is not clear.

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
    """So many with nothing in common: some of those that each may be, from its own place on."""
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
