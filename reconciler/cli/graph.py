"""`reconcile graph`: the resources and their order, as text, Mermaid, SVG or JSON."""

from collections.abc import Sequence
from pathlib import Path

import click

from reconciler.cli import options
from reconciler.cli.failures import DONE, reports_failures
from reconciler.cli.output import echo_diagnostics, emit, output
from reconciler.cli.progress import make_reporter
from reconciler.cli.sources import settings_here, texts_here
from reconciler.pipeline.desired import load_desired
from reconciler.pipeline.files import read_file
from reconciler.planning.graph import plan_graph, resource_graph
from reconciler.planning.saved import load_saved
from reconciler.reports.report import GraphReport


def _moved(context: click.Context, option: click.Parameter, value: str | None) -> None:
    """Until the next release, the old option names the new one."""
    if value is not None:
        raise click.UsageError(f"`--format {value}` is `-o {value}` now")


@click.command("graph", short_help="Draw the resources and their order.")
@options.paths
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw the steps of a plan saved by `plan --out`, not the manifests.",
)
@options.untrusted
@options.environment
@click.option("--format", callback=_moved, expose_value=False, hidden=True)
@output("graph")
@reports_failures
def command(paths: Sequence[str], plan_file: Path | None, untrusted: str | None, env: str) -> int:
    """Draw what the manifests declare: an arrow leads from a resource to those that refer to it.

    Reads manifests alone, no platform and no state.
    """
    if plan_file is not None and paths:
        raise click.UsageError("--plan draws a saved plan; it takes no PATH")
    if plan_file is not None and untrusted is not None:
        raise click.UsageError("--plan draws a saved plan; --untrusted is about manifests")
    if plan_file is not None:
        graph = plan_graph(load_saved(read_file(plan_file)).plan)
    else:
        config = settings_here(env, untrusted=untrusted, manifests_only=True)
        desired = load_desired(paths, config, texts_here(), make_reporter())
        echo_diagnostics(desired.diagnostics)
        graph = resource_graph(desired.resources, desired.policies)
    emit(GraphReport(graph=graph))
    return DONE
