"""`reconcile doctor`: whether all that a run relies on is as it should be."""

from functools import partial

import click

from reconciler.cli import options
from reconciler.cli.chosen_state import ChosenState, chosen_state
from reconciler.cli.failures import DONE, FAILED, reports_failures
from reconciler.cli.output import emit, output
from reconciler.cli.signals import run
from reconciler.doctor.examine import examine
from reconciler.pipeline.desired import origin_here
from reconciler.reports.checkup import checkup_page


@click.command("doctor", short_help="Check token, address, clock, state, lock, and what is left open.")
@click.option(
    "--probe-state",
    is_flag=True,
    help="Try out whether the store of the state keeps its word: 4 writers make 20 changes each in a shared "
    "one, in a place of their own.",
)
@chosen_state
@output()
@reports_failures
def command(probe_state: bool, chosen: ChosenState) -> int:
    """Check what a run relies on, one line each: ok, warning or problem, and what to type.

    Looks at the manifests, the platform's address, the token, the clocks, the state, who has locked it, owed
    restarts, calls without an outcome, the state's backups, and whether the declared capabilities are there.
    Without --probe-state, nothing is written. Takes no lock, and sends nothing but GET. Exit 0, or 1 where
    there is a problem.
    """
    origin = origin_here(chosen.config)
    look = partial(examine, chosen.config, chosen.load_desired, origin)
    found = run(partial(look, sandbox=chosen.sandbox, state_url=chosen.given_url, probes=probe_state))
    emit(checkup_page(found.checks, found.context, options.of_this_run()))
    return DONE if found.is_well else FAILED
