"""`reconcile build`: the manifests as they are in an environment."""

from collections.abc import Sequence

import click

from reconciler.cli import options
from reconciler.cli.failures import DONE, reports_failures
from reconciler.cli.output import echo_diagnostics, emit, output
from reconciler.cli.sources import settings_here, texts_here
from reconciler.core.diagnostics import has_errors
from reconciler.core.errors import ManifestError
from reconciler.manifests.writing.write import build
from reconciler.pipeline.desired import read_manifests
from reconciler.reports.report import Page


@click.command("build", short_help="Print the manifests as an environment has them.")
@options.paths
@options.ref
@options.changed_since
@options.untrusted
@options.environment
@output()
@reports_failures
def command(
    paths: Sequence[str], ref: str | None, changed_since: str | None, untrusted: str | None, env: str
) -> int:
    """Print the effective manifests, as YAML that can be validated again, or as one JSON document.

    With --env, the overlay is laid over them. With --changed-since, only what differs, and its dependants.
    """
    manifests = read_manifests(
        paths,
        settings_here(env, ref=ref, untrusted=untrusted, manifests_only=True),
        texts_here(),
        ref=ref,
        changed_since=changed_since,
        keep=True,
    )
    if has_errors(manifests.loaded.diagnostics):
        raise ManifestError("the manifests have errors; nothing is printed", manifests.loaded.diagnostics)
    echo_diagnostics(manifests.loaded.diagnostics)
    shown = [each.value for each in manifests.effective]
    emit(Page(document={"manifests": shown}, text=build(manifests.effective)))
    return DONE
