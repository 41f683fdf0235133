"""A graph as a flowchart of Mermaid, which GitHub and GitLab draw inside Markdown."""

from reconciler.planning.graph import Graph, Node
from reconciler.reports.diagnostics import render as excerpts
from reconciler.reports.formats import Format
from reconciler.reports.grouping import NO_APP
from reconciler.reports.report import Failure, GraphReport, Report

_CONTROL = dict.fromkeys([*range(32), *range(127, 160)])
# Characters that end a quoted label, or mean something in it. Source: Mermaid's manual, "Entity codes".
_ENTITIES = str.maketrans({"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;", "`": "#96;"})


def render(report: Report) -> str:
    """Return a graph as a flowchart, or a failure as a flowchart of one box."""
    match report:
        case GraphReport():
            return render_mermaid(report.graph)
        case Failure():
            lines = excerpts(report.problems, report.read_line).splitlines()
            return f'flowchart LR\n  failed["{"<br/>".join(map(_quoted, lines))}"]\n'
    raise TypeError(f"Mermaid shows no {report.kind}")


def render_mermaid(graph: Graph) -> str:
    """Return a flowchart with one box an app. An arrow leads to the resource that is applied later."""
    ids = {node.key: f"n{number}" for number, node in enumerate(graph.nodes)}
    lines = ["flowchart LR"]
    groups: dict[str, list[Node]] = {}
    for node in graph.nodes:
        groups.setdefault(node.group, []).append(node)
    for number, (group, nodes) in enumerate(sorted(groups.items())):
        lines.append(f'  subgraph g{number}["{_quoted(group or NO_APP)}"]')
        for node in nodes:
            texts = [node.kind, f"{node.name} x{node.count}" if node.count > 1 else node.name]
            text = "<br/>".join(_quoted(text) for text in [*texts, node.detail] if text)
            lines.append(f'    {ids[node.key]}["{text}"]')
        lines.append("  end")
    for node in graph.nodes:
        lines += [f"  {ids[before]} --> {ids[node.key]}" for before in node.after]
    return "".join(f"{line}\n" for line in lines)


def _quoted(text: str) -> str:
    return text.translate(_CONTROL).translate(_ENTITIES)


def _entity(character: str) -> str:
    return f"#{ord(character)};"


FORMAT = Format("mermaid", frozenset({"graph"}), render, escape=_entity)
