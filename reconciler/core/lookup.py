"""Indexes of objects by their fields, and of matches by their values, for thousands of searches.

A *match* is a mapping of fields to values, by which `Kind.match` recognises an object.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

_Index = tuple[dict[tuple[Any, ...], list[int]], list[int]]


def matching(match: Mapping[str, Any], objects: Sequence[Any]) -> list[Any]:
    """Return the objects whose fields equal `match`, in the platform's order."""
    return [item for item in objects if all(getattr(item, name, None) == match[name] for name in match)]


def possible(match: Mapping[str, Any], objects: Sequence[Any]) -> list[Any]:
    """Return the objects that may equal `match`: a field that is not shown may have any value."""
    return [
        item for item in objects if all(getattr(item, name, None) in (match[name], None) for name in match)
    ]


class Lookup:
    """The objects of one list, with indexes for searches. Results are in the platform's order."""

    def __init__(self, objects: Sequence[Any]) -> None:
        self.objects = objects
        self._indexes: dict[tuple[str, ...], _Index] = {}

    @cached_property
    def by_id(self) -> Mapping[str, Any]:
        """The objects by their ids."""
        return {item.id: item for item in self.objects}

    def possible(self, match: Mapping[str, Any]) -> list[Any]:
        """Return the objects that may equal `match`, as the function `possible` does."""
        equal, vague = self._index(tuple(match))
        places = equal.get(tuple(match.values()), [])
        if vague:
            places = sorted([*places, *vague])
        return possible(match, [self.objects[place] for place in places])

    def matching(self, match: Mapping[str, Any]) -> list[Any]:
        """Return the objects that equal `match`, as the function `matching` does."""
        return matching(match, self.possible(match))

    def _index(self, names: tuple[str, ...]) -> _Index:
        """Return the places of objects by their values of `names`, and of those that lack a value."""
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
    """Many matches, to find those that one object may equal."""

    def __init__(self, matches: Sequence[Mapping[str, Any]]) -> None:
        self._matches = matches
        self._by_names: dict[tuple[str, ...], list[int]] = {}
        self._indexes: dict[tuple[tuple[str, ...], tuple[str, ...]], dict[tuple[Any, ...], list[int]]] = {}
        for place, match in enumerate(matches):
            self._by_names.setdefault(tuple(match), []).append(place)

    def possible(self, value_of: Callable[[str], Any]) -> list[int]:
        """Return the places of matches, in order. `value_of` a field is None if it may have any value."""
        found: list[int] = []
        for names in self._by_names:
            values = {name: value for name in names if (value := value_of(name)) is not None}
            found += self._index(names, tuple(values)).get(tuple(values.values()), ())
        return sorted(found)

    def _index(self, names: tuple[str, ...], known: tuple[str, ...]) -> dict[tuple[Any, ...], list[int]]:
        """Return the places of matches with just these `names`, by their values of the `known` names."""
        if (names, known) not in self._indexes:
            index: dict[tuple[Any, ...], list[int]] = {}
            for place in self._by_names[names]:
                index.setdefault(tuple([self._matches[place][name] for name in known]), []).append(place)
            self._indexes[names, known] = index
        return self._indexes[names, known]
