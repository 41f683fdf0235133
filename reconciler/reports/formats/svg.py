"""A graph as one SVG: it loads nothing, needs no script, and follows a dark or a light page.

Each app is a lane, and each level a column. All numbers are pixels.
"""

import html
from collections.abc import Iterator, Sequence

from msgspec import Struct

from reconciler.planning.graph import Graph, Node
from reconciler.reports.diagnostics import render as excerpts
from reconciler.reports.escape import columns_of, numbered, visible
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
LEAST_WIDTH = 760  # alone standing boxes are laid out in rows at least so wide
_SWEEPS = 4

_FONT = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
STYLE = """
.page { fill: #ffffff }
.lane { fill: #f3f4f6; stroke: #d1d5db }
.box { fill: #ffffff; stroke: #6b7280 }
.arrow { fill: none; stroke: #6b7280 }
.head { fill: #6b7280 }
text { fill: #111827 }
.quiet { fill: #4b5563; font-size: 11px }
.name { font-weight: bold }
@media (prefers-color-scheme: dark) {
.page { fill: #111827 }
.lane { fill: #1f2937; stroke: #374151 }
.box { fill: #111827; stroke: #9ca3af }
.arrow { stroke: #9ca3af }
.head { fill: #9ca3af }
text { fill: #f9fafb }
.quiet { fill: #d1d5db }
}
"""
# Beside the word in the box: a kind is never told by its colour alone.
_COLOURS = ("#2563eb", "#0f766e", "#b45309", "#7c3aed", "#be123c", "#4d7c0f")
_KIND_STRIPE = 4
_BASELINE = 17  # of the first line of text, below the top of its box or lane
# XML has no control characters, nor lone surrogates and non-characters.
_NOT_IN_XML = dict.fromkeys([*range(32), *range(127, 160), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF])


def render(report: Report) -> str:
    match report:
        case GraphReport():
            return render_svg(report.graph)
        case Failure():
            return _failed(excerpts(report.problems, report.read_line).splitlines())
    raise TypeError(f"SVG shows no {report.kind}")


def render_svg(graph: Graph) -> str:
    drawing = lay_out(graph, NO_APP)
    kinds = sorted({node.kind for node in graph.nodes})
    colours = {kind: _COLOURS[at % len(_COLOURS)] for at, kind in enumerate(kinds)}
    elements = [line for lane in drawing.lanes for line in _lane(lane, drawing.width)]
    elements += [
        f'<path d="{arrow.path}" marker-end="url(#head)" class="arrow" />' for arrow in drawing.arrows
    ]
    elements += [line for box in drawing.boxes for line in _box(box, colours[box.node.kind])]
    described = (
        f"{of_graph(graph)}. An arrow points to the resource that is applied later; each lane is an app."
    )
    title = f"{graph.what.capitalize()}s and their order"
    return _picture(drawing.width, drawing.height, title, described, elements)


def _failed(lines: Sequence[str]) -> str:
    texts = [
        f'<text x="{PADDING}" y="{_BASELINE + LINE * number}" xml:space="preserve">{_text(line)}</text>'
        for number, line in enumerate(lines)
    ]
    width = max(map(columns_of, lines)) * CHARACTER + 2 * PADDING
    return _picture(width, BOX_HEIGHT + LINE * len(lines), "Failed", lines[0], texts)


def _picture(width: float, height: float, title: str, description: str, elements: Sequence[str]) -> str:
    """`title` and `description` are what a screen reader says."""
    size = f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title description" '
        f'font-family="{_FONT}" font-size="12">',
        f'<title id="title">{_text(title)}</title>',
        f'<desc id="description">{_text(description)}</desc>',
        f"<style>{STYLE}</style>",
        "<defs>",
        '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto">',
        '<path d="M0 0 8 4 0 8z" class="head" />',
        "</marker>",
        "</defs>",
        '<rect width="100%" height="100%" class="page" />',
        *elements,
        "</svg>",
    ]
    return "".join(f"{line}\n" for line in lines)


def _lane(lane: "Lane", width: float) -> Iterator[str]:
    size = f'y="{lane.y:g}" width="{width - 2 * MARGIN:g}" height="{lane.height:g}"'
    yield f'<rect x="{MARGIN}" {size} rx="6" class="lane" />'
    x, y = MARGIN + PADDING, lane.y + _BASELINE
    yield f'<text x="{x}" y="{y:g}" class="quiet">{_text(lane.title)}</text>'


def _box(box: "Box", colour: str) -> Iterator[str]:
    place, size = f", {box.node.place}" if box.node.place else "", f'height="{box.height:g}"'
    yield "<g>"
    yield f"<title>{_text(f'{box.node.label}{place}')}</title>"
    yield f'<rect x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" {size} rx="4" class="box" />'
    yield f'<rect x="{box.x:g}" y="{box.y:g}" width="{_KIND_STRIPE}" {size} fill="{colour}" />'
    for number, line in enumerate(box.lines):
        y, style = box.y + _BASELINE + LINE * number, "name" if number == 1 else "quiet"
        yield f'<text x="{box.x + PADDING:g}" y="{y:g}" class="{style}">{_text(line)}</text>'
    yield "</g>"


def _text(text: str) -> str:
    return html.escape(visible(text).translate(_NOT_IN_XML), quote=False)


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


FORMAT = Format("svg", frozenset({"graph"}), render, escape=numbered)
