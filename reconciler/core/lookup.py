"""Objects by their fields, and matches by what they ask for: each of thousands looks for its own."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

_Index = tuple[dict[tuple[Any, ...], list[int]], list[int]]


def matching(match: Mapping[str, Any], objects: Sequence[Any]) -> list[Any]:
    """The objects whose fields equal `match`, in the platform's order."""
    return [item for item in objects if all(getattr(item, name, None) == match[name] for name in match)]


def possible(match: Mapping[str, Any], objects: Sequence[Any]) -> list[Any]:
    """The objects that may equal `match`: a field that the platform does not tell may have any value."""
    return [
        item for item in objects if all(getattr(item, name, None) in (match[name], None) for name in match)
    ]


class Lookup:
    """The objects of one list: `possible` and `matching` for many matches, each without a look at all."""

    def __init__(self, objects: Sequence[Any]) -> None:
        self.objects = objects
        self._indexes: dict[tuple[str, ...], _Index] = {}

    @cached_property
    def by_id(self) -> Mapping[str, Any]:
        return {item.id: item for item in self.objects}

    def possible(self, match: Mapping[str, Any]) -> list[Any]:
        """In the platform's order."""
        equal, vague = self._index(tuple(match))
        places = equal.get(tuple(match.values()), [])
        if vague:
            places = sorted([*places, *vague])
        return possible(match, [self.objects[place] for place in places])

    def matching(self, match: Mapping[str, Any]) -> list[Any]:
        """In the platform's order."""
        return matching(match, self.possible(match))

    def _index(self, names: tuple[str, ...]) -> _Index:
        """Where the objects are with all the values of `names`, and where those that lack one."""
        if names not in self._indexes:
            equal: dict[tuple[Any, ...], list[int]] = {}
            vague: list[int] = []
            for place, item in enumerate(self.objects):
                values = tuple([getattr(item, name, None) for name in names])
                (vague if None in values else equal.setdefault(values, [])).append(place)
            self._indexes[names] = equal, vague
        return self._indexes[names]


NOTHING = Lookup(())


class Matches:
    """The other way round: of many matches, those that an object may equal."""

    def __init__(self, matches: Sequence[Mapping[str, Any]]) -> None:
        self._matches = matches
        self._by_names: dict[tuple[str, ...], list[int]] = {}
        self._indexes: dict[tuple[tuple[str, ...], tuple[str, ...]], dict[tuple[Any, ...], list[int]]] = {}
        for place, match in enumerate(matches):
            self._by_names.setdefault(tuple(match), []).append(place)

    def possible(self, value_of: Callable[[str], Any]) -> list[int]:
        """Their places, in order. `value_of` a field: None where it may have any value."""
        found: list[int] = []
        for names in self._by_names:
            values = {name: value for name in names if (value := value_of(name)) is not None}
            found += self._index(names, tuple(values)).get(tuple(values.values()), ())
        return sorted(found)

    def _index(self, names: tuple[str, ...], known: tuple[str, ...]) -> dict[tuple[Any, ...], list[int]]:
        """The places of the matches with these `names`, by their values of those that are `known`."""
        if (names, known) not in self._indexes:
            index: dict[tuple[Any, ...], list[int]] = {}
            for place in self._by_names[names]:
                index.setdefault(tuple([self._matches[place][name] for name in known]), []).append(place)
            self._indexes[names, known] = index
        return self._indexes[names, known]
