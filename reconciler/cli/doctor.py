"""`reconcile doctor`: whether all that a run relies on is as it should be."""

from functools import partial

import click

from reconciler.cli import options
from reconciler.cli.failures import DONE, FAILED, reports_failures
from reconciler.cli.output import emit, output
from reconciler.cli.signals import run


@click.command("doctor", short_help="Check token, address, clock, state, lock, and what is left open.")
@options.state
@output()
@reports_failures
def command(env: str, state_url: str | None, sandbox: bool) -> int:
    """Check what a run relies on, one line each: ok, warning or problem, and what to type.

    Looks at the manifests, the platform's address, the token, the clocks, the state, who has locked it, owed
    restarts, calls without an outcome, the state's backups, and whether the declared capabilities are there.
    Writes nothing, takes no lock, and sends nothing but GET. Exit 0, or 1 where there is a problem.
    """
    from reconciler.cli.progress import make_reporter
    from reconciler.cli.sources import settings_here, texts_here
    from reconciler.doctor.examine import examine
    from reconciler.pipeline.desired import load_desired, origin_here
    from reconciler.reports.checkup import checkup_page

    config = settings_here(env)
    load = partial(load_desired, (), config, texts_here(), make_reporter())
    found = run(
        partial(examine, config, load, origin_here(config), sandbox=sandbox, state_url=state_url),
    )
    emit(checkup_page(found.checks, found.context, options.of_this_run()))
    return DONE if found.is_well else FAILED
