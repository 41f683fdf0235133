"""The objects of one list, by id and by their fields: each of thousands of resources looks for its own."""

from collections.abc import Mapping, Sequence
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
    """`possible` among the same objects for many matches, each without a look at all of them."""

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
