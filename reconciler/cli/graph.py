"""`reconcile graph`: the resources and their order, as text, Mermaid, SVG or JSON."""

from pathlib import Path

import click

from reconciler.cli import options
from reconciler.cli.chosen_manifests import ChosenManifests
from reconciler.cli.output import echo_diagnostics, emit, in_parts
from reconciler.cli.verb import DONE, verb
from reconciler.pipeline.files import read_file
from reconciler.planning.graph import Graph, plan_graph, resource_graph
from reconciler.planning.saved import load_saved
from reconciler.reports.graph import graph_document, render_mermaid, render_text
from reconciler.reports.report import Page
from reconciler.reports.svg import render_svg


@verb("graph", options.PATHS, options.UNTRUSTED_REF, options.ENV)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "mermaid", "svg"]),
    default="text",
    show_default=True,
    help="What to draw.",
)
@click.option(
    "--plan",
    "plan_file",
    type=options.FILE,
    help="Draw the steps of a plan saved by `plan --out`, not the manifests.",
)
def command(form: str, plan_file: Path | None, chosen: ChosenManifests) -> int:
    """Draw what the manifests declare: an arrow leads from a resource to those that refer to it.

    Reads manifests alone, no platform and no state.
    """
    if plan_file is not None and chosen.paths:
        raise click.UsageError("--plan draws a saved plan; it takes no PATH")
    if plan_file is not None and chosen.untrusted is not None:
        raise click.UsageError("--plan draws a saved plan; --untrusted is about manifests")
    if form != "text" and not in_parts():
        raise click.UsageError("--output is a format of its own; leave --format out")

    def graph() -> Graph:
        if plan_file is not None:
            return plan_graph(load_saved(read_file(plan_file)).plan)
        desired = chosen.load_desired()
        echo_diagnostics(desired.diagnostics)
        return resource_graph(desired.resources, desired.policies)

    drawn = graph()
    emit(Page(document=graph_document(drawn), text=_rendered(drawn, form)))
    return DONE


def _rendered(graph: Graph, form: str) -> str:
    if form == "svg":
        return render_svg(graph)
    return render_mermaid(graph) if form == "mermaid" else render_text(graph)
