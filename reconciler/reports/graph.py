"""A graph as text in levels."""

from collections.abc import Iterator

from reconciler.planning.graph import Graph, Node
from reconciler.reports.visible import page_text

NO_APP = "no app"


def render_text(graph: Graph) -> str:
    """Level by level: what stands in one can be done side by side, after what its lines name."""
    return page_text(_text_lines(graph))


def _text_lines(graph: Graph) -> Iterator[str]:
    for number, nodes in enumerate(graph.levels, start=1):
        yield f"{number}. {'first' if number == 1 else 'then'}"
        for node in nodes:
            detail = f"  {node.detail}" if node.detail else ""
            after = f"  <- {', '.join(node.after)}" if node.after else ""
            yield f"   {label(node)}{detail}{after}"
        yield ""
    yield f"{summary(graph)}."


def summary(graph: Graph) -> str:
    """How much there is."""
    counts = ((len(graph.nodes), graph.what), (graph.edges, graph.by), (len(graph.levels), "level"))
    return ", ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts)


def label(node: Node) -> str:
    return f"{node.key} x{node.count}" if node.count > 1 else node.key
