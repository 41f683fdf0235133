"""`reconcile drift`: what changed on the platform without us."""

from collections.abc import Sequence

import click

from reconciler.cli import options
from reconciler.cli.failures import (
    CHANGES,
    DONE,
    FAILED,
    echo_diagnostics,
    echo_json,
    first_of,
    reports_failures,
)
from reconciler.diagnostics import has_errors
from reconciler.steps import Plan


@click.command("drift", short_help="Show what changed on the platform without us.")
@options.paths
@options.platform
@reports_failures
def command(paths: Sequence[str], output: str, state_url: str | None, sandbox: bool) -> int:
    """Compare the platform with what was last applied. Sends nothing but GET. Exit 2 when something moved."""
    import anyio

    from reconciler.cli.progress import make_reporter
    from reconciler.cli.project import Options, load_desired, open_project
    from reconciler.cli.sources import settings_here
    from reconciler.pipeline.drift import find_drift
    from reconciler.reports.documents import drift_document
    from reconciler.reports.text import render_drift

    found, reporter = settings_here(), make_reporter()
    desired = load_desired(paths, found, reporter)

    async def work() -> Plan:
        chosen = Options(sandbox, state_url, read_only=True)
        async with open_project(found, chosen, reporter, desired.resources, desired.policies) as project:
            return await find_drift(project, desired)

    found_drift = anyio.run(work)
    if output == "json":
        echo_json(drift_document(found_drift))
    else:
        click.echo(render_drift(found_drift), nl=False)
        echo_diagnostics(found_drift.diagnostics)
    failed = FAILED if has_errors(found_drift.diagnostics) else DONE
    return first_of(failed, CHANGES if found_drift.changes else DONE)
