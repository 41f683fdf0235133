"""Graphs as one SVG: nothing outside of it is needed, and it needs no script."""

from functools import cache
from importlib import resources

from jinja2 import Environment, Template

from reconciler.planning.graph import Graph
from reconciler.reports import layout
from reconciler.reports.graph import NO_APP, label, told

# Beside the word in the box: a kind is never told by its colour alone.
_COLOURS = ("#2563eb", "#0f766e", "#b45309", "#7c3aed", "#be123c", "#4d7c0f")
_NOT_IN_XML = dict.fromkeys([*range(32), *range(127, 160), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF])


def render_svg(graph: Graph) -> str:
    kinds = sorted({node.kind for node in graph.nodes})
    text: str = _template().render(
        drawing=layout.lay_out(graph, NO_APP),
        title=f"{graph.what.capitalize()}s and their order",
        description=f"{told(graph)}. An arrow leads to what comes after; each lane is an app.",
        colours={kind: _COLOURS[at % len(_COLOURS)] for at, kind in enumerate(kinds)},
        label=label,
        layout=layout,
    )
    return text


def _clean(value: object) -> object:
    """XML has no control characters, nor lone surrogates and non-characters."""
    return value.translate(_NOT_IN_XML) if isinstance(value, str) else value


@cache
def _template() -> Template:
    source = resources.files("reconciler.reports").joinpath("graph.svg").read_text(encoding="utf-8")
    environment = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=_clean, keep_trailing_newline=True
    )
    return environment.from_string(source)
