"""`reconcile doctor`: whether all that a run relies on is as it should be."""

from functools import partial

from reconciler.cli.chosen_state import ChosenState
from reconciler.cli.command_line import of_this_run
from reconciler.cli.event_loop import run
from reconciler.cli.output import emit
from reconciler.cli.verb import DONE, FAILED, flag, verb
from reconciler.doctor.check import checkup_page
from reconciler.doctor.examine import examine
from reconciler.project.desired import origin_here


@verb("doctor")
def command(
    chosen: ChosenState,
    probe_state: bool = flag(
        "--probe-state",
        "Probe the store of the state: 4 writers make 20 changes each in a shared "
        "one, in a place of their own.",
    ),
) -> int:
    """Check what a run relies on, one line each: ok, warning or problem, and what to type.

    Looks at the manifests, the platform's address, the token, the clocks, the state, who has locked it, owed
    restarts, calls without an outcome, the state's backups, and whether the declared capabilities are there.
    Without --probe-state, nothing is written. Takes no lock, and sends nothing but GET. Exit 0, or 1 where
    there is a problem.
    """
    origin = origin_here(chosen.config)
    look = partial(examine, chosen.config, chosen.load_desired, origin)
    found = run(partial(look, state_url=chosen.state_url, probes=probe_state))
    emit(checkup_page(found.checks, found.context, of_this_run()))
    return DONE if found.is_well else FAILED
