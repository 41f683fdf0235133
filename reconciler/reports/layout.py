"""Where the boxes of a drawn graph stand: a lane an app, a column a level. All numbers are pixels."""

from collections.abc import Sequence

from msgspec import Struct

from reconciler.planning.graph import Graph, Node
from reconciler.reports.visible import columns_of

# Of the widest common monospace font at 12 px, so that no text leaves its box.
CHARACTER = 7.4
BOX_HEIGHT, LINE = 40, 15
PADDING = 12
BETWEEN_COLUMNS, BETWEEN_ROWS = 56, 12
MARGIN, LANE_TITLE, BETWEEN_LANES = 16, 26, 16
LEAST_WIDTH = 760  # alone standing boxes are laid out in rows at least so wide
_SWEEPS = 4


class Box(Struct, frozen=True):
    node: Node
    lines: tuple[str, ...]
    x: float
    y: float
    width: float
    height: float


class Lane(Struct, frozen=True):
    title: str
    y: float
    height: float


class Arrow(Struct, frozen=True):
    """From the right edge of one box to the left edge of another."""

    x1: float
    y1: float
    x2: float
    y2: float

    @property
    def path(self) -> str:
        bend = max(24.0, (self.x2 - self.x1) / 2)
        return (
            f"M{self.x1:g} {self.y1:g} C{self.x1 + bend:g} {self.y1:g} "
            f"{self.x2 - bend:g} {self.y2:g} {self.x2:g} {self.y2:g}"
        )


class Drawing(Struct, frozen=True):
    width: float
    height: float
    lanes: Sequence[Lane]
    boxes: Sequence[Box]
    arrows: Sequence[Arrow]


def lay_out(graph: Graph, no_group: str) -> Drawing:
    """Boxes that no arrow touches stand in rows below the others of their lane."""
    touched = {key for node in graph.nodes for key in (*node.after, *([node.key] if node.after else ()))}
    columns = _columns([node for node in graph.nodes if node.key in touched])
    right = max((x + width for x, width in columns), default=0.0)
    right = max(
        right, MARGIN + PADDING + LEAST_WIDTH, *(_width(node) + MARGIN * 3 for node in graph.nodes), 0
    )
    ranks = _ranks(graph, touched)
    boxes: dict[str, Box] = {}
    lanes: list[Lane] = []
    y: float = MARGIN
    for group in sorted({node.group for node in graph.nodes}):
        top, y = y, y + LANE_TITLE
        own = [node for node in graph.nodes if node.group == group]
        y = _place_columns([node for node in own if node.key in touched], columns, ranks, y, boxes)
        y = _place_rows([node for node in own if node.key not in touched], right, y, boxes)
        lanes.append(Lane(group or no_group, top, y - top))
        y += BETWEEN_LANES
    arrows = [_arrow(boxes[before], boxes[node.key]) for node in graph.nodes for before in node.after]
    return Drawing(right + PADDING + MARGIN, y, lanes, list(boxes.values()), arrows)


def _lines(node: Node) -> tuple[str, ...]:
    name = f"{node.name} x{node.count}" if node.count > 1 else node.name
    return tuple(line for line in (node.kind, name, node.detail) if line)


def _width(node: Node) -> float:
    return max(map(columns_of, _lines(node))) * CHARACTER + 2 * PADDING


def _height(node: Node) -> float:
    return BOX_HEIGHT + LINE * (len(_lines(node)) - 2)


def _columns(nodes: Sequence[Node]) -> list[tuple[float, float]]:
    """Left edge and width of each level."""
    found: list[tuple[float, float]] = []
    x: float = MARGIN + PADDING
    for level in range(max((node.level + 1 for node in nodes), default=0)):
        width = max((_width(node) for node in nodes if node.level == level), default=0.0)
        found.append((x, width))
        x += width + BETWEEN_COLUMNS
    return found


def _ranks(graph: Graph, touched: set[str]) -> dict[str, float]:
    """A place from the top for each node, near the mean of those that it has arrows with."""
    neighbours: dict[str, list[str]] = {key: [] for key in touched}
    for node in graph.nodes:
        for before in node.after:
            neighbours[before].append(node.key)
            neighbours[node.key].append(before)
    by_level = [[node.key for node in nodes if node.key in touched] for nodes in graph.levels]
    group = {node.key: node.group for node in graph.nodes}
    ranks = {key: float(at) for keys in by_level for at, key in enumerate(keys)}
    for sweep in range(_SWEEPS):
        for keys in by_level if sweep % 2 == 0 else reversed(by_level):
            mean = {key: sum(ranks[each] for each in neighbours[key]) / len(neighbours[key]) for key in keys}
            keys.sort(key=lambda key: (group[key], mean[key]))
            ranks |= {key: float(at) for at, key in enumerate(keys)}
    return ranks


def _place_columns(
    nodes: Sequence[Node],
    columns: Sequence[tuple[float, float]],
    ranks: dict[str, float],
    top: float,
    boxes: dict[str, Box],
) -> float:
    """Returns where the next row begins."""
    bottom = top
    for level, (x, width) in enumerate(columns):
        y = top
        for node in sorted((each for each in nodes if each.level == level), key=lambda each: ranks[each.key]):
            boxes[node.key] = Box(node, _lines(node), x, y, width, _height(node))
            y += _height(node) + BETWEEN_ROWS
        bottom = max(bottom, y)
    return bottom


def _place_rows(nodes: Sequence[Node], right: float, top: float, boxes: dict[str, Box]) -> float:
    x: float = MARGIN + PADDING
    y, tallest = top, 0.0
    for node in nodes:
        width, height = _width(node), _height(node)
        if x + width > right and tallest:
            x, y, tallest = MARGIN + PADDING, y + tallest + BETWEEN_ROWS, 0.0
        boxes[node.key] = Box(node, _lines(node), x, y, width, height)
        x, tallest = x + width + BETWEEN_ROWS, max(tallest, height)
    return y + tallest + BETWEEN_ROWS if nodes else y


def _arrow(source: Box, target: Box) -> Arrow:
    return Arrow(
        source.x + source.width, source.y + source.height / 2, target.x - 2, target.y + target.height / 2
    )
