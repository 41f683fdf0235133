"""`reconcile validate`, `build` and `graph`: verbs that read manifests alone, no platform and no state."""

from dataclasses import replace
from pathlib import Path

import click

from reconciler.cli import options
from reconciler.cli.command_line import texts_here
from reconciler.cli.options import ChosenManifests
from reconciler.cli.output import echo_diagnostics, emit
from reconciler.cli.verb import DONE, FAILED, option, verb
from reconciler.core.context import BASE
from reconciler.core.diagnostics import has_errors
from reconciler.core.errors import ManifestError
from reconciler.manifests.writing.write import build as build_text
from reconciler.planning.graph import plan_graph, resource_graph
from reconciler.project import desired as checks
from reconciler.project.files import read_file
from reconciler.project.manifests import environments_at, read_manifests
from reconciler.reports.report import GraphReport, Page


@verb("validate", *options.MANIFESTS, report="validate")
def validate(chosen: ChosenManifests) -> int:
    """Check manifests: files, directories, or - for stdin. Exit 0 when they hold no error, else 1.

    Without --env, they are checked as they are without an overlay, and as each environment has them.

    With --changed-since, all of them are checked, and what differs is listed.
    """
    config = replace(chosen, env=chosen.env or BASE).config
    names = [chosen.env] if chosen.env else [BASE, *environments_at(config, chosen.ref)]
    default = config.settings.default_environment
    if not chosen.env and default is not None and default not in names:
        config.of(default).refuse_unknown_environment(names[1:])
    environments = [config.of(name) for name in names]
    report = checks.validate(chosen.paths, environments, texts_here(), chosen.ref, chosen.changed_since)
    emit(report)
    return FAILED if has_errors(report.diagnostics) else DONE


@verb("build", *options.MANIFESTS)
def build(chosen: ChosenManifests) -> None:
    """Print the effective manifests, as YAML that can be validated again, or as one JSON document.

    With --env, the overlay is laid over them. With --changed-since, only what differs, and its dependants.
    """
    manifests = read_manifests(
        chosen.paths,
        chosen.config,
        texts_here(),
        ref=chosen.ref,
        changed_since=chosen.changed_since,
        keep=True,
    )
    diagnostics = manifests.loaded.diagnostics
    if has_errors(diagnostics):
        raise ManifestError("the manifests have errors; nothing is printed", diagnostics)
    echo_diagnostics(diagnostics)
    documents = [manifest.value for manifest in manifests.effective]
    emit(Page(document={"manifests": documents}, text=build_text(manifests.effective)))


def _moved(context: click.Context, option: click.Parameter, value: str | None) -> None:
    """Names the new option. To be removed with the next release."""
    if value is not None:
        raise click.UsageError(f"`--format {value}` is `-o {value}` now")


@verb("graph", options.PATHS, options.UNTRUSTED_REF, report="graph")
@click.option("--format", callback=_moved, expose_value=False, hidden=True)
def graph(
    chosen: ChosenManifests,
    plan_file: Path | None = option(
        "--plan", "Draw the steps of a plan saved by `plan --out`, not the manifests.", type=options.FILE
    ),
) -> None:
    """Draw what the manifests declare: an arrow leads from a resource to those that refer to it.

    Reads manifests alone, no platform and no state.
    """
    if plan_file is None:
        desired = chosen.load_desired()
        echo_diagnostics(desired.diagnostics)
        emit(GraphReport(graph=resource_graph(desired.resources, desired.policies)))
        return
    if chosen.paths:
        raise click.UsageError("--plan draws a saved plan; it takes no PATH")
    if chosen.untrusted is not None:
        raise click.UsageError("--plan draws a saved plan; --untrusted is about manifests")
    from reconciler.planning.saved import load_saved  # it imports rehearsals, which `validate` never needs

    emit(GraphReport(graph=plan_graph(load_saved(read_file(plan_file)).plan)))
