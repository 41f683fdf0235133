"""`reconcile history`: what was done, by whom and why."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from reconciler.cli import options
from reconciler.cli.addresses import ADDRESS, AddressType
from reconciler.cli.failures import DONE, reports_failures
from reconciler.cli.moments import moment_of, span_of
from reconciler.cli.output import emit, output
from reconciler.cli.signals import run
from reconciler.core.model import Address

if TYPE_CHECKING:
    from reconciler.core.context import Context
    from reconciler.state.spooling import Spooling

T = TypeVar("T")

SHOW = "show"
_MOST = 100  # runs and decisions, where nobody says since when


class AddressOrShow(AddressType):
    """An address, or the word `show` and a run."""

    name = "address or show"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        if ctx.params.get("what"):
            return []
        words = [CompletionItem(SHOW)] if SHOW.startswith(incomplete) else []
        return [*words, *super().shell_complete(ctx, param, incomplete)]


def _moment(context: click.Context, parameter: click.Parameter, value: str | None) -> datetime | None:
    """The moment that `value` names: a time before now, or a date."""
    if value is None:
        return None
    try:
        if (span := span_of(value)) is not None:
            from reconciler.core.clock import SystemClock

            return SystemClock().now() - span
        return moment_of(value)
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"`{value}` is neither so long ago (30m, 12h, 7d, 2w) nor a date (2026-11-22)"
        ) from None


@click.command("history", short_help="Show what was done, by whom and why.")
@click.argument("what", nargs=-1, type=AddressOrShow(), metavar="[ADDRESS | show RUN]")
@click.option(
    "--since",
    callback=_moment,
    metavar="7d|DATE",
    help="Only runs that did something since then: so long ago (30m, 12h, 7d, 2w), or a date in UTC.",
)
@options.no_pager
@options.state
@output()
@reports_failures
def command(
    what: Sequence[str], since: datetime | None, env: str, state_url: str | None, sandbox: bool
) -> int:
    """List the applies and the decisions that the state knows of, newest first.

    With an ADDRESS, those about one resource, and its calls. `history show RUN` shows one run: all its calls,
    what became of them, what people decided, and what was owed; the beginning of its id is enough. Without
    --since, the newest 100 are listed. Reads the state only.
    """
    from reconciler.pipeline.history import find_history, find_run
    from reconciler.reports.history import history_page, run_page

    if what[:1] == (SHOW,):
        if len(what) != 2 or not what[1]:
            raise click.UsageError("history show: give the id of one run, or its beginning")
        if since is not None:
            raise click.UsageError("--since goes with the list of runs")
        (past, later, running), context = _with_state(
            env, state_url, sandbox, lambda store: find_run(store, what[1])
        )
        emit(run_page(past, later, context, running=running), paged=True)
        return DONE
    if len(what) > 1:
        raise click.UsageError("give one ADDRESS, or `show` and a run")
    address: Address | None = ADDRESS.convert(what[0], None, None) if what else None
    found, context = _with_state(env, state_url, sandbox, lambda store: find_history(store, address, since))
    page = history_page(
        found.history,
        context,
        running=found.running,
        names=found.names,
        most=_MOST if since is None else None,
    )
    emit(page, paged=True)
    return DONE


def _with_state(
    env: str, state_url: str | None, sandbox: bool, work: "Callable[[Spooling], Awaitable[T]]"
) -> "tuple[T, Context]":
    """What `work` returns, and what it is about. Raises Refused where there is no state."""
    from reconciler.cli.progress import make_reporter
    from reconciler.cli.sources import settings_here
    from reconciler.core.clock import SystemClock
    from reconciler.core.context import EMBEDDED
    from reconciler.core.state_url import shown_url
    from reconciler.pipeline.context import make_context
    from reconciler.pipeline.desired import origin_here
    from reconciler.pipeline.identity import refuse_missing
    from reconciler.pipeline.open import open_state

    config = settings_here(env, sandbox=sandbox)
    place = shown_url(state_url or config.settings.state_url)

    async def main() -> "tuple[T, Context]":
        async with open_state(config, state_url, read_only=True, tell=make_reporter().note) as store:
            state = await store.load()
            refuse_missing(state, place)
            platform = EMBEDDED if sandbox else state.platform or config.settings.platform.base_url
            now = SystemClock().now()
            context = make_context(config.env, platform, place, origin_here(config), state.lineage, now)
            return await work(store), context

    return run(main)
