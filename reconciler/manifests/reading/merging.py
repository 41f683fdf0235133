"""Merge keys: what `<<` brings into a mapping, and where that stands."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from reconciler.manifests.reading.spans import PathNode, key_child

MERGE = object()  # stands for a plain `<<` among the keys of a mapping being built


class Placed(NamedTuple):
    """The values of a document in their order: path, packed position, and that of the key (0: none)."""

    nodes: list[PathNode]
    positions: list[int]
    key_positions: list[int]

    def add(self, node: PathNode, position: int, key_position: int) -> None:
        self.nodes.append(node)
        self.positions.append(position)
        self.key_positions.append(key_position)


def merge(mapping: dict[Any, Any], node: PathNode, placed: Placed) -> int | None:
    """Replace `<<` in `mapping`, at `node`, by what it brings: its own keys win, then the first listed.

    What stands in a mapping written right there keeps its positions; what comes by an alias has none but
    the alias's. Gives the position of `<<` where something else than mappings was to be merged.
    """
    sources = mapping.pop(MERGE)
    begins = placed.nodes.index(node.children[MERGE])
    places = {placed.nodes[index]: index for index in range(begins, len(placed.nodes))}
    listed = isinstance(sources, list)
    for number, source in enumerate(sources if listed else [sources]):
        if not isinstance(source, dict):
            return placed.positions[begins]
        origin = placed.nodes[begins]
        if listed:
            origin = origin.child(number, number, number)
        position = placed.positions[places.get(origin, begins)]
        for name, value in source.items():
            if name in mapping:
                continue
            mapping[name] = value
            child, written = key_child(node, name), places.get(key_child(origin, name))
            if written is None:
                placed.add(child, position, position)
            else:
                placed.add(child, placed.positions[written], placed.key_positions[written])
                _merge_inside(value, placed.nodes[written], child, places, placed)
    return None


def _merge_inside(
    value: Any, origin: PathNode, node: PathNode, places: Mapping[PathNode, int], placed: Placed
) -> None:
    """The positions of all that stands in `value` below `origin`, also below `node`."""
    names: Iterable[Any] = ()
    if origin.children:  # what an alias brought has none
        names = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for name in names:
        part, twin = (
            (each.child(name, name, name) if isinstance(name, int) else key_child(each, name))
            for each in (origin, node)
        )
        written = places.get(part)
        if written is not None:
            placed.add(twin, placed.positions[written], placed.key_positions[written])
            _merge_inside(value[name], part, twin, places, placed)
