"""`reconcile graph`: the resources and their order, as text, Mermaid, SVG or JSON."""

from pathlib import Path

import click

from reconciler.cli import options
from reconciler.cli.chosen_manifests import ChosenManifests
from reconciler.cli.output import echo_diagnostics, emit
from reconciler.cli.verb import DONE, verb
from reconciler.planning.graph import plan_graph, resource_graph
from reconciler.planning.saved import load_saved
from reconciler.project.files import read_file
from reconciler.reports.report import GraphReport


def _moved(context: click.Context, option: click.Parameter, value: str | None) -> None:
    """Until the next release, the old option names the new one."""
    if value is not None:
        raise click.UsageError(f"`--format {value}` is `-o {value}` now")


@verb("graph", options.PATHS, options.UNTRUSTED_REF, options.ENV, report="graph")
@click.option(
    "--plan",
    "plan_file",
    type=options.FILE,
    help="Draw the steps of a plan saved by `plan --out`, not the manifests.",
)
@click.option("--format", callback=_moved, expose_value=False, hidden=True)
def command(plan_file: Path | None, chosen: ChosenManifests) -> int:
    """Draw what the manifests declare: an arrow leads from a resource to those that refer to it.

    Reads manifests alone, no platform and no state.
    """
    if plan_file is not None and chosen.paths:
        raise click.UsageError("--plan draws a saved plan; it takes no PATH")
    if plan_file is not None and chosen.untrusted is not None:
        raise click.UsageError("--plan draws a saved plan; --untrusted is about manifests")
    if plan_file is not None:
        graph = plan_graph(load_saved(read_file(plan_file)).plan)
    else:
        desired = chosen.load_desired()
        echo_diagnostics(desired.diagnostics)
        graph = resource_graph(desired.resources, desired.policies)
    emit(GraphReport(graph=graph))
    return DONE
