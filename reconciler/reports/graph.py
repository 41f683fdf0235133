"""Graphs as text in levels, as Mermaid and as JSON. Values → str."""

from collections.abc import Iterator
from typing import Any

from reconciler.planning.graph import Graph, Node
from reconciler.reports.visible import visible

NO_APP = "no app"

_CONTROL = dict.fromkeys([*range(32), *range(127, 160)])
# What ends a quoted label, or means something in one. Source: Mermaid's documentation, "Entity codes".
_ENTITIES = str.maketrans({"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;", "`": "#96;"})


def render_text(graph: Graph) -> str:
    """Level by level: what stands in one can be done side by side, after what its lines name."""
    return "".join(f"{visible(line)}\n" for line in _text_lines(graph))


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


def render_mermaid(graph: Graph) -> str:
    """A flowchart; an arrow leads to what comes after. One box an app."""
    ids = {node.key: f"n{number}" for number, node in enumerate(graph.nodes)}
    lines = ["flowchart LR"]
    groups: dict[str, list[Node]] = {}
    for node in graph.nodes:
        groups.setdefault(node.group, []).append(node)
    for number, (group, nodes) in enumerate(sorted(groups.items())):
        lines.append(f'  subgraph g{number}["{_quoted(group or NO_APP)}"]')
        for node in nodes:
            texts = [node.kind, f"{node.name} x{node.count}" if node.count > 1 else node.name]
            text = "<br/>".join(_quoted(each) for each in [*texts, node.detail] if each)
            lines.append(f'    {ids[node.key]}["{text}"]')
        lines.append("  end")
    for node in graph.nodes:
        lines += [f"  {ids[before]} --> {ids[node.key]}" for before in node.after]
    return "".join(f"{line}\n" for line in lines)


def _quoted(text: str) -> str:
    return text.translate(_CONTROL).translate(_ENTITIES)


def graph_document(graph: Graph) -> dict[str, Any]:
    """`after` names the nodes that come before; `level` counts from 1."""
    return {
        "nodes": [_node(node) for node in graph.nodes],
        "edges": [{"from": before, "to": node.key} for node in graph.nodes for before in node.after],
    }


def _node(node: Node) -> dict[str, Any]:
    document: dict[str, Any] = {
        "key": node.key,
        "kind": node.kind,
        "app": node.group or None,
        "level": node.level + 1,
        "count": node.count,
    }
    if node.detail:
        document["detail"] = node.detail
    if node.place:
        document["place"] = node.place
    return document
