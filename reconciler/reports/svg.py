"""Graphs as one SVG: it loads nothing, needs no script, and follows a dark or a light page."""

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from reconciler.planning.graph import Graph
from reconciler.reports import layout
from reconciler.reports.graph import NO_APP, label, summary
from reconciler.reports.visible import visible

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


def render_svg(graph: Graph) -> str:
    drawing = layout.lay_out(graph, NO_APP)
    kinds = sorted({node.kind for node in graph.nodes})
    colours = {kind: _COLOURS[at % len(_COLOURS)] for at, kind in enumerate(kinds)}
    svg = _picture(graph, drawing)
    for lane in drawing.lanes:
        _lane(svg, lane, drawing.width)
    for arrow in drawing.arrows:
        _add(svg, "path", d=arrow.path, marker_end="url(#head)", class_="arrow")
    for box in drawing.boxes:
        _box(svg, box, colours[box.node.kind])
    indent(svg, "")
    return f"{tostring(svg, encoding='unicode')}\n"


def _picture(graph: Graph, drawing: layout.Drawing) -> Element:
    """The root, with what a screen reader says, the style, the arrowhead and the page."""
    width, height = f"{drawing.width:g}", f"{drawing.height:g}"
    svg = Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "width": width,
            "height": height,
            "viewBox": f"0 0 {width} {height}",
            "role": "img",
            "aria-labelledby": "title description",
            "font-family": _FONT,
            "font-size": "12",
        },
    )
    _add(svg, "title", f"{graph.what.capitalize()}s and their order", id="title")
    description = (
        f"{summary(graph)}. An arrow points to the resource that is applied later; each lane is an app."
    )
    _add(svg, "desc", description, id="description")
    SubElement(svg, "style").text = STYLE
    marker = SubElement(
        SubElement(svg, "defs"),
        "marker",
        {
            "id": "head",
            "viewBox": "0 0 8 8",
            "refX": "7",
            "refY": "4",
            "markerWidth": "8",
            "markerHeight": "8",
            "orient": "auto",
        },
    )
    _add(marker, "path", d="M0 0 8 4 0 8z", class_="head")
    _add(svg, "rect", width="100%", height="100%", class_="page")
    return svg


def _lane(svg: Element, lane: layout.Lane, width: float) -> None:
    _add(
        svg,
        "rect",
        x=layout.MARGIN,
        y=lane.y,
        width=width - 2 * layout.MARGIN,
        height=lane.height,
        rx=6,
        class_="lane",
    )
    _add(svg, "text", lane.title, x=layout.MARGIN + layout.PADDING, y=lane.y + _BASELINE, class_="quiet")


def _box(svg: Element, box: layout.Box, colour: str) -> None:
    group = SubElement(svg, "g")
    place = f", {box.node.place}" if box.node.place else ""
    _add(group, "title", f"{label(box.node)}{place}")
    _add(group, "rect", x=box.x, y=box.y, width=box.width, height=box.height, rx=4, class_="box")
    _add(group, "rect", x=box.x, y=box.y, width=_KIND_STRIPE, height=box.height, fill=colour)
    for number, line in enumerate(box.lines):
        y = box.y + _BASELINE + layout.LINE * number
        style = "name" if number == 1 else "quiet"
        _add(group, "text", line, x=box.x + layout.PADDING, y=y, class_=style)


def _add(parent: Element, tag: str, text: str = "", **attributes: str | float) -> None:
    """An element in `parent`; `class_` and `marker_end` are SVG's `class` and `marker-end`."""
    written = {
        name.rstrip("_").replace("_", "-"): value if isinstance(value, str) else f"{value:g}"
        for name, value in attributes.items()
    }
    SubElement(parent, tag, written).text = visible(text).translate(_NOT_IN_XML) or None
