"""`reconcile validate`: manifests alone, no platform, no state."""

from collections.abc import Sequence

import click

from reconciler.cli import options
from reconciler.cli.failures import DONE, FAILED, reports_failures
from reconciler.cli.output import emit, reports
from reconciler.cli.sources import settings_here, texts_here
from reconciler.core.context import BASE
from reconciler.core.diagnostics import has_errors
from reconciler.pipeline.desired import environments_at
from reconciler.pipeline.settings import refuse_unknown_environment
from reconciler.pipeline.validate import validate
from reconciler.reports.report import ValidationReport


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

    Without --env, they are checked as they are without an overlay, and as each environment has them.

    With --changed-since, all of them are checked, and what differs is listed.
    """
    config = settings_here(env or BASE, ref=ref, untrusted=untrusted, manifests_only=True)
    names = [env] if env else [BASE, *environments_at(config, ref)]
    default = config.settings.default_environment
    if not env and default is not None and default not in names:
        refuse_unknown_environment(default, names[1:], config.settings.overlays)
    found = validate(paths, [config.of(name) for name in names], texts_here(), ref, changed_since)
    differs = changed_since is not None
    emit(
        ValidationReport(
            resources=len(found.addresses),
            files=tuple(sorted(found.files)),
            environments=tuple(names) if len(names) > 1 else (),
            changed=tuple(sorted(map(str, found.differ))) if differs else None,
            dependants=tuple(sorted(map(str, found.dependants))),
            diagnostics=found.diagnostics,
        )
    )
    return FAILED if has_errors(found.diagnostics) else DONE
