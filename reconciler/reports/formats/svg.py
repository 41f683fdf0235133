"""A graph as one SVG: it loads nothing, needs no script, and follows a dark or a light page.

Each app is a lane, and each level a column. All numbers are pixels. `graph.svg` is the template.
"""

from collections.abc import Sequence
from functools import cache
from importlib import resources
from statistics import fmean
from typing import Any

from msgspec import Struct

from reconciler.planning.graph import Graph, Node
from reconciler.reports.diagnostics import render as excerpts
from reconciler.reports.escape import columns_of, numbered, template, visible
from reconciler.reports.formats import Format
from reconciler.reports.grouping import NO_APP
from reconciler.reports.report import Failure, GraphReport, Report
from reconciler.reports.verdict import of_graph

# Of the widest common monospace font at 12 px, so that no text leaves its box.
CHARACTER = 7.4
BOX_HEIGHT, LINE = 40, 15
PADDING = 12
BETWEEN_COLUMNS, BETWEEN_ROWS = 56, 12
MARGIN, LANE_TITLE, BETWEEN_LANES = 16, 26, 16
LEAST_WIDTH = 760  # of the rows of boxes without arrows
_BASELINE = 17  # of the first line of text, below the top of its box or lane
_SWEEPS = 4  # over all columns, to put boxes near their neighbours
# One colour a kind. The box says the kind in words, too.
_COLOURS = ("#2563eb", "#0f766e", "#b45309", "#7c3aed", "#be123c", "#4d7c0f")


def render(report: Report) -> str:
    """Return the picture of a graph, or of the text of a failure."""
    match report:
        case GraphReport():
            return render_svg(report.graph)
        case Failure():
            lines = excerpts(report.problems, report.read_line).splitlines()
            width = max(map(columns_of, lines)) * CHARACTER + 2 * PADDING
            return _picture(width, BOX_HEIGHT + LINE * len(lines), "Failed", lines[0], lines=lines)
    raise TypeError(f"SVG shows no {report.kind}")


def render_svg(graph: Graph) -> str:
    """Return the picture of a graph."""
    drawing = lay_out(graph)
    kinds = sorted({node.kind for node in graph.nodes})
    return _picture(
        drawing.width,
        drawing.height,
        f"{graph.what.capitalize()}s and their order",
        f"{of_graph(graph)}. An arrow points to the resource that is applied later; each lane is an app.",
        lanes=drawing.lanes,
        arrows=drawing.arrows,
        boxes=drawing.boxes,
        colours={kind: _COLOURS[at % len(_COLOURS)] for at, kind in enumerate(kinds)},
    )


@cache
def style() -> str:
    """The style sheet of each picture."""
    return "\n" + resources.files(__package__).joinpath("graph.css").read_text(encoding="utf-8")


def _picture(width: float, height: float, title: str, description: str, **content: Any) -> str:
    """Fill the template. A screen reader says `title` and `description`."""
    measures = {"margin": MARGIN, "padding": PADDING, "baseline": _BASELINE, "line_height": LINE}
    about = {"width": width, "height": height, "title": title, "description": description, "style": style()}
    return f"{template('graph.svg').render(**about, **measures, **content)}\n"


class Box(Struct, frozen=True):
    """A node at its place. `lines`: its kind, its name, and its detail if it has one."""

    node: Node
    lines: tuple[str, ...]
    x: float
    y: float
    width: float
    height: float


class Lane(Struct, frozen=True):
    """The boxes of one app. It is as wide as the drawing."""

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
        """A curve, as the `d` of a path."""
        bend = max(24.0, (self.x2 - self.x1) / 2)
        return (
            f"M{self.x1:g} {self.y1:g} C{self.x1 + bend:g} {self.y1:g} "
            f"{self.x2 - bend:g} {self.y2:g} {self.x2:g} {self.y2:g}"
        )


class Drawing(Struct, frozen=True):
    """Everything at its place, and the size of it all."""

    width: float
    height: float
    lanes: Sequence[Lane]
    boxes: Sequence[Box]
    arrows: Sequence[Arrow]


def lay_out(graph: Graph) -> Drawing:
    """Give each node its place. Boxes without arrows stand in rows below the others of their lane."""
    touched = {key for node in graph.nodes for key in (*node.after, *([node.key] if node.after else ()))}
    columns = _columns([node for node in graph.nodes if node.key in touched])
    ends = [x + width for x, width in columns]
    wide = [_width(node) + MARGIN * 3 for node in graph.nodes]
    right = max([MARGIN + PADDING + LEAST_WIDTH, *ends, *wide])
    ranks = _ranks(graph, touched)
    boxes: dict[str, Box] = {}
    lanes: list[Lane] = []
    y: float = MARGIN
    for group in sorted({node.group for node in graph.nodes}):
        top, y = y, y + LANE_TITLE
        own = [node for node in graph.nodes if node.group == group]
        y = _place_columns([node for node in own if node.key in touched], columns, ranks, y, boxes)
        y = _place_rows([node for node in own if node.key not in touched], right, y, boxes)
        lanes.append(Lane(group or NO_APP, top, y - top))
        y += BETWEEN_LANES
    arrows = [_arrow(boxes[before], boxes[node.key]) for node in graph.nodes for before in node.after]
    return Drawing(right + PADDING + MARGIN, y, lanes, list(boxes.values()), arrows)


def _lines(node: Node) -> tuple[str, ...]:
    name = f"{node.name} x{node.count}" if node.count > 1 else node.name
    return tuple(visible(line) for line in (node.kind, name, node.detail) if line)


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
    """The place from the top of each node, near the mean of its neighbours."""
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
            mean = {key: fmean(ranks[other] for other in neighbours[key]) for key in keys}
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
    """Put the boxes with arrows into `boxes`, and return the y below them."""
    bottom = top
    for level, (x, width) in enumerate(columns):
        y = top
        of_level = [node for node in nodes if node.level == level]
        for node in sorted(of_level, key=lambda node: ranks[node.key]):
            boxes[node.key] = Box(node, _lines(node), x, y, width, _height(node))
            y += _height(node) + BETWEEN_ROWS
        bottom = max(bottom, y)
    return bottom


def _place_rows(nodes: Sequence[Node], right: float, top: float, boxes: dict[str, Box]) -> float:
    """The same for the boxes without arrows: in rows that end before `right`."""
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
    middle, other_middle = source.y + source.height / 2, target.y + target.height / 2
    return Arrow(source.x + source.width, middle, target.x - 2, other_middle)


FORMAT = Format("svg", frozenset({"graph"}), render, escape=numbered)
