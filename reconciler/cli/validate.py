"""`reconcile validate`: manifests alone, no platform, no state."""

from collections.abc import Sequence

import click

from reconciler.cli import options
from reconciler.cli.failures import DONE, FAILED, echo_diagnostics, echo_json, reports_failures
from reconciler.diagnostics import has_errors


@click.command("validate", short_help="Check manifests without asking the platform.")
@options.paths
@options.output
@reports_failures
def command(paths: Sequence[str], output: str) -> int:
    """Check manifests: files, directories, or - for stdin. Exit 0 when they hold no error, else 1."""
    from reconciler.cli.sources import given_paths, read_stdin, settings_here
    from reconciler.manifests.load import load
    from reconciler.reports.diagnostics import diagnostic_documents
    from reconciler.reports.documents import FORMAT_VERSION

    found = settings_here()
    loaded = load(given_paths(paths, found), root=found.root, stdin=read_stdin)
    if output == "json":
        found_problems = diagnostic_documents(loaded.diagnostics)
        echo_json({"format_version": FORMAT_VERSION, "diagnostics": found_problems})
    else:
        echo_diagnostics(loaded.diagnostics)
        if not has_errors(loaded.diagnostics):
            click.echo(f"Valid: {len(loaded.resources)} resources in {len(loaded.files)} files.")
    return FAILED if has_errors(loaded.diagnostics) else DONE
