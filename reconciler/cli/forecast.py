"""`reconcile forecast`: what will be full, from the recorded looks."""

from datetime import datetime
from pathlib import Path

import click

from reconciler.cli import options
from reconciler.cli.chosen_state import ChosenState
from reconciler.cli.options import Moment
from reconciler.cli.output import emit
from reconciler.cli.verb import CHANGES, DONE, option, verb
from reconciler.drift.outlook import outlook_report, outlooks, propose
from reconciler.project.scopes import declared_in_focus, focused


@verb("forecast", options.PATHS, options.TARGET, options.NO_PAGER, report="forecast")
def command(
    chosen: ChosenState,
    within: datetime = option(
        "--within",
        "How far to look ahead: a span (12h, 30d, 2w), or a time in UTC.",
        type=Moment(ahead=True),
        default="30d",
        show_default=True,
        metavar="30d|TIME",
    ),
    folder: Path | None = option(
        "--propose",
        "Write the manifests with sizes that are enough into this folder; `.` in the project changes them.",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
    ),
) -> int:
    """Say which volumes will be full, and when, from the looks that the state holds. Reads the state only.

    Looks are recorded by apply and the controller. A trend takes three of them over a day, and looks ahead
    twice as far as it looks back. Exits 2 if something will be full. With --propose, only values of
    `size_gb` change in the manifests, for a pull request; a range is never left.
    """
    desired = chosen.load_desired()
    state, context = chosen.read(lambda store: store.load())
    resources = declared_in_focus(focused(desired, state.records))
    found = list(outlooks(state, resources, within))
    written = propose(found, chosen.config.root, folder) if folder is not None else ()
    emit(outlook_report(found, within, written, context), paged=True)
    return CHANGES if any(each.full is not None for each in found) else DONE
