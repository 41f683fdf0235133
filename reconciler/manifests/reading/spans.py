"""Positions of values and keys, in little memory: documents of one shape share their paths.

A document has one array of 64-bit numbers (`model.pack_span`). The mapping from path to index belongs to its
shape, which a hundred thousand volumes have in common. `merge` places the values of merge keys (`<<`).

Every position is private, so that no report prints its line, until the loader knows that the document's kind
holds no secrets (`shown_spans`).
"""

from abc import abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from reconciler.core.model import SHOWN, Path
from reconciler.manifests.reading.scalars import is_text

_MOST_NODES = 200_000
_MOST_SHAPES = 2_000


class PathNode:
    """One path, interned. `name` is the key in its parent (`compose` puts its merge marker there)."""

    __slots__ = ("children", "name", "path")

    def __init__(self, path: Path, name: Any) -> None:
        self.path = path
        self.name = name
        self.children: dict[Any, PathNode] = {}

    def child(self, slot: Any, part: str | int, name: Any) -> "PathNode":
        """Return the node below this one at `slot`; make it if there is none."""
        node = self.children.get(slot)
        if node is None:
            node = self.children[slot] = PathNode((*self.path, part), name)
        return node


def key_child(node: PathNode, text: str) -> PathNode:
    """Return the path below `node` for the key `text`.

    Only a key that needs no quotes is found by its text alone: a key that was found needs no further check.
    """
    ordinary = text != "<<" and is_text(text)
    return node.child(text if ordinary else (text,), text, text)


class Positions(Mapping[Path, int]):
    """Packed positions by path."""

    __slots__ = ()

    @abstractmethod
    def shown(self) -> "Positions":
        """Return the same positions, in a document without secrets: its lines may be shown."""
        ...


class Spans(Positions):
    """Positions whose paths are shared by all documents of one shape. `mark`: added to every position."""

    __slots__ = ("_index", "_mark", "_packed")

    def __init__(self, index: Mapping[Path, int], packed: Sequence[int], mark: int = 0) -> None:
        self._index = index
        self._packed = packed
        self._mark = mark

    def shown(self) -> "Spans":
        return Spans(self._index, self._packed, SHOWN)

    def __getitem__(self, path: Path) -> int:
        return self._packed[self._index[path]] | self._mark

    def __contains__(self, path: object) -> bool:
        return path in self._index

    def __iter__(self) -> Iterator[Path]:
        return iter(self._index)

    def __len__(self) -> int:
        return len(self._index)


def shown_spans(spans: Mapping[Path, int]) -> Mapping[Path, int]:
    """Return `spans` as those of a document that holds no secrets."""
    if isinstance(spans, Positions):
        return spans.shown()
    return {path: packed | SHOWN for path, packed in spans.items()}


class SpanTable:
    """The interned paths and shapes of one load."""

    def __init__(self) -> None:
        self.root = PathNode((), None)
        self._shapes: dict[tuple[PathNode, ...], tuple[dict[Path, int], dict[Path, int]]] = {}
        self._nodes = 0

    def spans(self, nodes: list[PathNode], values: list[int], keys: list[int]) -> tuple[Spans, Spans]:
        """Return the positions of values and of keys of one document. A key position of 0 means no key."""
        shape = tuple(nodes)
        known = self._shapes.get(shape)
        if known is None:
            known = (
                {node.path: index for index, node in enumerate(nodes)},
                {node.path: index for index, node in enumerate(nodes) if keys[index]},
            )
            self._remember(shape, known)
        return Spans(known[0], array("Q", values)), Spans(known[1], array("Q", keys))

    def _remember(self, shape: tuple[PathNode, ...], known: tuple[dict[Path, int], dict[Path, int]]) -> None:
        """Add a shape, or forget all once they are too many: input is hostile, or no shape is shared."""
        self._nodes += len(shape)
        if self._nodes > _MOST_NODES or len(self._shapes) >= _MOST_SHAPES:
            self.root = PathNode((), None)
            self._shapes.clear()
            self._nodes = 0
            return
        self._shapes[shape] = known


MERGE = object()  # stands for a plain `<<` among the keys of a mapping being built


class Placed(NamedTuple):
    """The values of a document in order: paths, packed positions, and positions of their keys (0: none)."""

    nodes: list[PathNode]
    positions: list[int]
    key_positions: list[int]

    def add(self, node: PathNode, position: int, key_position: int) -> None:
        self.nodes.append(node)
        self.positions.append(position)
        self.key_positions.append(key_position)


def merge(mapping: dict[Any, Any], node: PathNode, placed: Placed) -> int | None:
    """Replace `<<` in `mapping`, at `node`, by the merged keys. Its own keys win, then the first listed.

    Keys of a mapping written in place have their own positions, those of an alias have the alias's.
    Return the position of `<<` if something else than mappings was to be merged, or None.
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
    """Place all that `value` holds below `origin` a second time, below `node`."""
    names: Iterable[Any] = ()
    if origin.children:  # what an alias brought has none
        names = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for name in names:
        part, twin = (
            (parent.child(name, name, name) if isinstance(name, int) else key_child(parent, name))
            for parent in (origin, node)
        )
        written = places.get(part)
        if written is not None:
            placed.add(twin, placed.positions[written], placed.key_positions[written])
            _merge_inside(value[name], part, twin, places, placed)
