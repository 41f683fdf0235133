"""`reconcile state`: what is recorded, and what a person does about it."""

from collections.abc import Sequence
from functools import partial

import click
from msgspec.structs import replace

from reconciler.cli import options, state_upkeep
from reconciler.cli.addresses import ADDRESS, DECLARABLE
from reconciler.cli.chosen_state import ChosenState, chosen_state
from reconciler.cli.failures import DONE, reports_failures
from reconciler.cli.group import Group
from reconciler.cli.output import emit, output
from reconciler.core import advice
from reconciler.core.errors import ReconcilerError
from reconciler.core.model import Address, owed_work
from reconciler.kinds import find_kinds
from reconciler.pipeline.identity import set_platform as record_platform
from reconciler.pipeline.records import claim, move
from reconciler.pipeline.records import forget as forget_record
from reconciler.pipeline.settings import check_address
from reconciler.pipeline.unrecorded import no_record_of, not_recorded
from reconciler.planning.decide import recorded_twice
from reconciler.reports.records import moved_page, record_page, records_page
from reconciler.reports.report import Page
from reconciler.reports.visible import visible


@click.group(
    "state",
    cls=Group,
    moved={"doctor": "doctor --probe-state"},
    short_help="List and change records; lock, back up and restore the state.",
)
def command() -> None:
    """Work with the state, which holds the records of your objects."""


for verb in state_upkeep.VERBS:
    command.add_command(verb)


@command.command("list")
@output()
@chosen_state
@reports_failures
def list_records(chosen: ChosenState) -> int:
    """List the records: address, id, owed work; and objects recorded under two addresses."""
    state = chosen.load()
    doubts = [*recorded_twice(find_kinds(), state.records)]
    doubts += (no_record_of(entry, (), ()) for entry in state.unclaimed)
    page = records_page(state, doubts, options.of_this_run())
    emit(replace(page, context=chosen.context(state)))
    return DONE


@command.command("show")
@click.argument("address", type=ADDRESS)
@output()
@chosen_state
@reports_failures
def show(address: Address, chosen: ChosenState) -> int:
    """Show the record of one address. Secrets appear only as keyed fingerprints."""
    records = chosen.load().records
    record = records.get(address)
    if record is None:
        raise not_recorded(address, records)
    emit(record_page(record))
    return DONE


@command.command("mv")
@click.argument("source", metavar="FROM", type=ADDRESS)
@click.argument("target", metavar="TO", type=DECLARABLE)
@output()
@chosen_state
@options.lock_timeout
@options.reason
@reports_failures
def mv(source: Address, target: Address, chosen: ChosenState) -> int:
    """Move a record to another address, after its manifest was renamed.

    Addresses without an [index] move all of a `count`. A Moved manifest does the same, with a review.
    """
    moved = chosen.use(lambda store: move(store, source, target, chosen.actor()))
    emit(moved_page(source, moved))
    return DONE


@command.command("forget")
@click.argument("address", required=False, type=ADDRESS)
@click.option(
    "--unclaimed",
    metavar="ID",
    multiple=True,
    help="Stop reporting this untracked object; may be repeated. `all`: all that are older than the state.",
)
@chosen_state
@options.lock_timeout
@options.reason
@reports_failures
def forget(address: Address | None, unclaimed: Sequence[str], chosen: ChosenState) -> int:
    """Drop the record and leave the object alone. The next apply adopts or creates again."""
    if (address is None) == (not unclaimed):
        raise click.UsageError("give either an ADDRESS or --unclaimed ID")
    actor = chosen.actor()
    for each in unclaimed:
        if not chosen.use(partial(claim, id=each, actor=actor)):
            listed = advice.command("state", "list")
            message = f"no unclaimed object `{each}` is known"
            raise ReconcilerError(message, help=f"`{listed}` shows what is", advice=(listed,))
        click.echo(f"dismissed: {each}")
    if address is None:
        return DONE
    records = chosen.load().records
    record = records.get(address)
    if not chosen.use(lambda store: forget_record(store, address, actor)):
        raise not_recorded(address, records)
    click.echo(f"forgotten: {address} (the object itself is left alone)")
    for owed in owed_work({address: record}) if record is not None else ():
        click.echo(visible(f"  with it: {owed.work} owed ({owed.certainty}), because {owed.because}"))
    return DONE


@command.command("set-platform")
@click.argument("url")
@output()
@chosen_state
@options.lock_timeout
@options.reason
@reports_failures
def set_platform(url: str, chosen: ChosenState) -> int:
    """Record that the platform, with all recorded objects, is now at URL."""
    if chosen.sandbox:
        raise click.UsageError("--sandbox: its state is about the sandbox, whatever its address is")
    check_address(url)
    before = chosen.use(lambda store: record_platform(store, url, chosen.actor()))
    was = f" (was {before})" if before not in ("", url) else ""
    text = f"{chosen.place}: about the platform at {url}{was}\n"
    emit(Page(document={"platform": url, "before": before or None}, text=text))
    return DONE
