"""`reconcile build`: the manifests as they are in an environment."""

from reconciler.cli import options
from reconciler.cli.chosen_manifests import ChosenManifests
from reconciler.cli.command_line import texts_here
from reconciler.cli.output import echo_diagnostics, emit
from reconciler.cli.verb import DONE, verb
from reconciler.core.diagnostics import has_errors
from reconciler.core.errors import ManifestError
from reconciler.manifests.writing.write import build
from reconciler.project.manifests import read_manifests
from reconciler.reports.report import Page


@verb("build", *options.MANIFESTS)
def command(chosen: ChosenManifests) -> int:
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
    if has_errors(manifests.loaded.diagnostics):
        raise ManifestError("the manifests have errors; nothing is printed", manifests.loaded.diagnostics)
    echo_diagnostics(manifests.loaded.diagnostics)
    shown = [each.value for each in manifests.effective]
    emit(Page(document={"manifests": shown}, text=build(manifests.effective)))
    return DONE
