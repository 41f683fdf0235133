"""`reconcile validate`: manifests alone, no platform, no state."""

from collections.abc import Sequence
from dataclasses import replace

import click

from reconciler.cli import options
from reconciler.cli.failures import DONE, FAILED, reports_failures
from reconciler.cli.output import emit, reports
from reconciler.core.diagnostics import has_errors


@click.command("validate", short_help="Check manifests without asking the platform.")
@options.paths
@options.ref
@options.changed_since
@options.untrusted
@options.environment
@reports("validate")
@reports_failures
def command(
    paths: Sequence[str], ref: str | None, changed_since: str | None, untrusted: str | None, env: str
) -> int:
    """Check manifests: files, directories, or - for stdin. Exit 0 when they hold no error, else 1.

    With --changed-since, all of them are checked, and what differs is listed.
    """
    from reconciler.cli.sources import settings_here, texts_here
    from reconciler.pipeline.desired import read_manifests
    from reconciler.pipeline.missing_sources import missing_sources
    from reconciler.reports.report import ValidationReport

    config = settings_here(env, ref=ref, untrusted=untrusted)
    manifests = read_manifests(
        paths,
        config,
        texts_here(),
        ref=ref,
        changed_since=changed_since,
    )
    loaded, changed = manifests.loaded, manifests.changed
    if not has_errors(loaded.diagnostics):
        loaded = replace(loaded, diagnostics=(*loaded.diagnostics, *missing_sources(manifests, config)))
    emit(
        ValidationReport(
            resources=len(loaded.resources),
            files=len(loaded.files),
            changed=tuple(sorted(map(str, changed.differ))) if changed is not None else None,
            dependants=tuple(sorted(map(str, changed.dependants))) if changed is not None else (),
            diagnostics=tuple(loaded.diagnostics),
        )
    )
    return FAILED if has_errors(loaded.diagnostics) else DONE
