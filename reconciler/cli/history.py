"""`reconcile history`: what was done, by whom and why."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from reconciler.cli import options
from reconciler.cli.addresses import ADDRESS, AddressType
from reconciler.cli.chosen_state import ChosenState
from reconciler.cli.options import Moment
from reconciler.cli.output import emit
from reconciler.cli.verb import DONE, argument, option, verb
from reconciler.core.model import Address
from reconciler.project.history import find_history, find_run
from reconciler.reports.history import history_page, run_page

SHOW, EXPORT, REPLAY = "show", "export", "replay"
_WORDS = (SHOW, EXPORT, REPLAY)
_FORMS = "[ADDRESS | show RUN | export RUN [PATHS]... | replay FOLDER]"
_MOST = 100  # runs and decisions that are listed without --since


class AddressOrWord(AddressType):
    """The first argument: an address, or one of the words. The verb decides which."""

    name = "address or word"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        if ctx.params.get("what"):
            return []
        words = [CompletionItem(word) for word in _WORDS if word.startswith(incomplete)]
        return [*words, *super().shell_complete(ctx, param, incomplete)]


@verb("history", options.NO_PAGER)
def command(
    chosen: ChosenState,
    what: Sequence[str] = argument(nargs=-1, type=AddressOrWord(), metavar=_FORMS),
    since: datetime | None = option(
        "--since",
        "Only runs that did something since then: so long ago (30m, 12h, 7d, 2w), or a date in UTC.",
        type=Moment(),
        metavar="7d|DATE",
    ),
    out: Path | None = option(
        "--out", "With `export`: the folder to make.", type=click.Path(path_type=Path), metavar="FOLDER"
    ),
) -> int:
    """List the applies and the decisions that the state knows of, newest first.

    With an ADDRESS, those about one resource, and its calls. `history show RUN` shows one run: all its calls,
    what became of them, what people decided, and what was owed; the beginning of its id is enough. Without
    --since, the newest 100 are listed. Reads the state only.

    `history export RUN --out FOLDER` writes what the run began with and what its calls met, and
    `history replay FOLDER` plays that again on an emulated platform: it exits 1 if anything is different.
    PATHS are those of the run's manifests, where it was given some.
    """
    if (out is not None) != (what[:1] == (EXPORT,)):
        raise click.UsageError("`history export RUN` and --out FOLDER go together")
    if what[:1] == (EXPORT,):
        from reconciler.cli.evidence import export_run

        assert out is not None
        _require_one(what[:2], since, "the id of one run, or its beginning")
        return export_run(what[1], what[2:], out, chosen)
    if what[:1] == (REPLAY,):
        from reconciler.cli.evidence import replay_case

        _require_one(what, since, "the folder that `history export` made")
        return replay_case(Path(what[1]))

    if what[:1] == (SHOW,):
        _require_one(what, since, "the id of one run, or its beginning")
        (past, later, running), context = chosen.read(lambda store: find_run(store, what[1]))
        emit(run_page(past, later, context, running=running), paged=True)
        return DONE
    if len(what) > 1:
        raise click.UsageError("give one ADDRESS, or a word and what it is about")
    address: Address | None = ADDRESS.convert(what[0], None, None) if what else None
    found, context = chosen.read(lambda store: find_history(store, address, since))
    page = history_page(
        found.history,
        context,
        running=found.running,
        names=found.names,
        most=_MOST if since is None else None,
    )
    emit(page, paged=True)
    return DONE


def _require_one(what: Sequence[str], since: datetime | None, one: str) -> None:
    """Raises UsageError unless exactly one argument follows the word, and --since is not given."""
    if len(what) != 2 or not what[1]:
        raise click.UsageError(f"history {what[0]}: give {one}")
    if since is not None:
        raise click.UsageError("--since goes with the list of runs")
