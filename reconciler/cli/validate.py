"""`reconcile validate`: manifests alone, no platform, no state."""

from collections.abc import Sequence

import click

from reconciler.cli import options
from reconciler.cli.failures import DONE, FAILED, echo_diagnostics, echo_json, reports_failures
from reconciler.core.diagnostics import has_errors


@click.command("validate", short_help="Check manifests without asking the platform.")
@options.paths
@options.ref
@options.changed_since
@options.environment
@options.output
@reports_failures
def command(paths: Sequence[str], ref: str | None, changed_since: str | None, env: str, output: str) -> int:
    """Check manifests: files, directories, or - for stdin. Exit 0 when they hold no error, else 1.

    With --changed-since, all of them are checked, and what differs is listed.
    """
    from reconciler.cli.sources import settings_here, texts_here
    from reconciler.pipeline.desired import read_manifests
    from reconciler.reports.diagnostics import diagnostic_documents
    from reconciler.reports.documents import FORMAT_VERSION

    manifests = read_manifests(
        paths, settings_here(env, ref=ref), texts_here(), ref=ref, changed_since=changed_since
    )
    loaded, changed = manifests.loaded, manifests.changed
    differ = sorted(map(str, changed.differ)) if changed is not None else []
    dependants = sorted(map(str, changed.dependants)) if changed is not None else []
    if output == "json":
        found_problems = diagnostic_documents(loaded.diagnostics)
        told = {"changed": differ, "dependants": dependants} if changed is not None else {}
        echo_json({"format_version": FORMAT_VERSION, "diagnostics": found_problems, **told})
    else:
        echo_diagnostics(loaded.diagnostics)
        if not has_errors(loaded.diagnostics):
            click.echo(f"Valid: {len(loaded.resources)} resources in {len(loaded.files)} files.")
            for word, addresses in (("changed", differ), ("depends on it", dependants)):
                for address in addresses:
                    click.echo(f"  {word}: {address}")
    return FAILED if has_errors(loaded.diagnostics) else DONE
