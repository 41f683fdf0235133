"""`reconcile state`: what is recorded, and what a person does about it."""

import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from reconciler.cli import options
from reconciler.cli.addresses import ADDRESS, DECLARABLE
from reconciler.cli.failures import DONE, FAILED, reports_failures
from reconciler.cli.output import emit, output
from reconciler.cli.signals import run
from reconciler.core import advice
from reconciler.core.model import Address, StateRecord, owed_work
from reconciler.core.plural import counted
from reconciler.reports.records import (
    migrated_page,
    moved_page,
    pin_lines,
    record_page,
    records_page,
    rekeyed_page,
    restored_page,
    state_doctor_page,
)
from reconciler.reports.report import Page
from reconciler.reports.visible import visible
from reconciler.state import maintenance_of
from reconciler.state.store import Restored, State, Store

if TYPE_CHECKING:
    from reconciler.core.attribution import Attribution
    from reconciler.core.clock import Clock


class Which(NamedTuple):
    """What says which state is meant, and why a person works on it."""

    env: str
    state_url: str | None
    sandbox: bool
    reason: str = ""


@click.group("state", short_help="List and change records; lock, back up and restore the state.")
def command() -> None:
    """Work with the state, which holds the records of your objects."""


@command.command("init")
@click.option(
    "--take-over",
    is_flag=True,
    help="With --env: hand the state of base over to this environment.",
)
@click.option(
    "--new",
    is_flag=True,
    help="This is a new project: nothing was created for it yet, so no create needs --approve-create.",
)
@output()
@options.state
@reports_failures
def init(take_over: bool, new: bool, env: str, state_url: str | None, sandbox: bool) -> int:
    """Create the state that apply needs. Does nothing if it exists."""

    from reconciler.cli.sources import settings_here
    from reconciler.core.clock import SystemClock
    from reconciler.pipeline.attribution import holder
    from reconciler.pipeline.identity import create_state

    environment, taken = settings_here(env).env, False
    by = _by(Which(env, state_url, sandbox))
    if take_over:
        if not environment:
            raise click.UsageError("--take-over: name with --env the environment that gets it")
        if new:
            raise click.UsageError("--take-over: a state that exists is not --new")
        taken = _with_store(
            Which(env, state_url, sandbox),
            lambda store: maintenance_of(store).take_over(environment, by=str(by)),
            existing=False,
            environment="",
        )

    async def work(store: Store) -> tuple[bool, str]:
        created = await create_state(store, SystemClock(), holder(), new=new, by=by)
        return created, (await store.load()).lineage

    created, lineage = _with_store(Which(env, state_url, sandbox), work, existing=False)
    place = _place(Which(env, state_url, sandbox))
    if take_over:
        now = "is from now on" if taken else "is already"
        text = f"{place}: {now} the state of environment {environment}\n"
    else:
        text = f"{place}: {'created' if created else 'exists already'}\n"
    if not sandbox and settings_here(env).settings.state.lineage is None:
        text += pin_lines(place, lineage, environment)
    more = {"taken_over": taken} if take_over else {}
    emit(Page(document={"state": place, "lineage": lineage, "created": created, **more}, text=text))
    return DONE


@command.command("list")
@output()
@options.state
@reports_failures
def list_records(env: str, state_url: str | None, sandbox: bool) -> int:
    """List the records: address, id, owed work; and objects recorded under two addresses."""
    from reconciler.cli.sources import settings_here
    from reconciler.core.clock import SystemClock
    from reconciler.core.context import EMBEDDED
    from reconciler.kinds import find_kinds
    from reconciler.pipeline.context import make_context
    from reconciler.pipeline.desired import origin_here
    from reconciler.planning.decide import recorded_twice

    which = Which(env, state_url, sandbox)
    state, config = _load(which), settings_here(env, sandbox=sandbox)
    context = make_context(
        config.env,
        EMBEDDED if sandbox else state.platform or config.settings.platform.base_url,
        _place(which),
        origin_here(config),
        state.lineage,
        SystemClock().now(),
    )
    doubts = tuple(recorded_twice(find_kinds(), state.records))
    page = records_page(state, doubts, options.of_this_run())
    emit(replace(page, context=context))
    return DONE


@command.command("show")
@click.argument("address", type=ADDRESS)
@output()
@options.state
@reports_failures
def show(address: Address, env: str, state_url: str | None, sandbox: bool) -> int:
    """Show the record of one address. Secrets appear only as keyed fingerprints."""
    from reconciler.pipeline.unrecorded import not_recorded

    records = _load(Which(env, state_url, sandbox)).records
    record = records.get(address)
    if record is None:
        raise not_recorded(address, records)
    emit(record_page(record))
    return DONE


@command.command("mv")
@click.argument("source", metavar="FROM", type=ADDRESS)
@click.argument("target", metavar="TO", type=DECLARABLE)
@output()
@options.state
@options.lock_timeout
@options.reason
@reports_failures
def mv(
    source: Address,
    target: Address,
    env: str,
    state_url: str | None,
    sandbox: bool,
    lock_timeout: float,
    reason: str,
) -> int:
    """Move a record to another address, after its manifest was renamed.

    Addresses without an [index] move all of a `count`. A Moved manifest does the same, with a review.
    """
    from reconciler.cli.progress import make_reporter
    from reconciler.pipeline.resolve import move

    which = Which(env, state_url, sandbox, reason)
    by, reporter = _by(which), make_reporter()
    moved: list[StateRecord] = _with_store(
        which, lambda store: move(store, source, target, *_actor(), lock_timeout, by, reporter)
    )
    emit(moved_page(source, moved))
    return DONE


@command.command("forget")
@click.argument("address", required=False, type=ADDRESS)
@click.option("--unclaimed", metavar="ID", help="Stop reporting this untracked object.")
@options.state
@options.lock_timeout
@options.reason
@reports_failures
def forget(
    address: Address | None,
    unclaimed: str | None,
    env: str,
    state_url: str | None,
    sandbox: bool,
    lock_timeout: float,
    reason: str,
) -> int:
    """Drop the record and leave the object alone. The next apply adopts or creates again."""
    from reconciler.cli.progress import make_reporter
    from reconciler.pipeline.resolve import claim
    from reconciler.pipeline.resolve import forget as forget_record
    from reconciler.pipeline.unrecorded import not_recorded

    if (address is None) == (unclaimed is None):
        raise click.UsageError("give either an ADDRESS or --unclaimed ID")
    which = Which(env, state_url, sandbox, reason)
    by, reporter = _by(which), make_reporter()
    if unclaimed is not None:
        if not _with_store(
            which, lambda store: claim(store, unclaimed, *_actor(), lock_timeout, by, reporter)
        ):
            raise _nothing(f"no unclaimed object `{unclaimed}` is known")
        click.echo(f"dismissed: {unclaimed}")
        return DONE
    assert address is not None
    records = _load(which).records
    record = records.get(address)
    if not _with_store(
        which, lambda store: forget_record(store, address, *_actor(), lock_timeout, by, reporter)
    ):
        raise not_recorded(address, records)
    click.echo(f"forgotten: {address} (the object itself is left alone)")
    for owed in owed_work({address: record}) if record is not None else ():
        click.echo(visible(f"  with it: {owed.work} owed ({owed.certainty}), because {owed.because}"))
    return DONE


@command.command("set-platform")
@click.argument("url")
@output()
@options.state
@options.lock_timeout
@options.reason
@reports_failures
def set_platform(
    url: str, env: str, state_url: str | None, sandbox: bool, lock_timeout: float, reason: str
) -> int:
    """Record that the platform, with all recorded objects, is now at URL."""
    from reconciler.cli.progress import make_reporter
    from reconciler.pipeline.identity import set_platform as record_platform
    from reconciler.pipeline.settings import check_address

    if sandbox:
        raise click.UsageError("--sandbox: its state is about the sandbox, whatever its address is")
    check_address(url)
    which = Which(env, state_url, sandbox, reason)
    by, reporter = _by(which), make_reporter()
    before: str = _with_store(
        which, lambda store: record_platform(store, url, *_actor(), lock_timeout, by, reporter)
    )
    was = f" (was {before})" if before not in ("", url) else ""
    text = f"{_place(which)}: about the platform at {url}{was}\n"
    emit(Page(document={"platform": url, "before": before or None}, text=text))
    return DONE


@command.command("unlock")
@click.argument("scope")
@click.option("--force", is_flag=True, help="Break the lock even if its owner is still running.")
@options.state
@options.reason
@reports_failures
def unlock(scope: str, force: bool, env: str, state_url: str | None, sandbox: bool, reason: str) -> int:
    """Unlock a scope (an app, or org/SLUG) after its owner hangs. A dead owner holds no lock."""
    which = Which(env, state_url, sandbox, reason)
    by = str(_by(which))
    freed = _with_store(which, lambda store: maintenance_of(store).unlock(scope, force=force, by=by))
    click.echo(f"{scope}: {freed}")
    return DONE


@command.command("migrate")
@click.argument("url")
@output()
@options.state
@options.lock_timeout
@reports_failures
def migrate(url: str, env: str, state_url: str | None, sandbox: bool, lock_timeout: float) -> int:
    """Move the state to URL, a place without one, and leave a mark where it was.

    Nobody can write to two of them at any moment. Was it interrupted? Run it again.
    """
    from reconciler.cli.progress import make_reporter
    from reconciler.cli.sources import settings_here
    from reconciler.core.state_url import is_shared, shown_url
    from reconciler.pipeline.attribution import holder
    from reconciler.pipeline.migrate import Migrated, opened, side
    from reconciler.pipeline.migrate import migrate as move_state
    from reconciler.pipeline.private import require_own_place
    from reconciler.pipeline.store import store_of
    from reconciler.state.chain import state_head

    if sandbox:
        raise click.UsageError("--sandbox: its state stays where its world is")
    config, reporter = settings_here(env), make_reporter()
    old, new = state_url or config.settings.state_url, url

    async def main() -> tuple[Migrated, str]:
        for each in (old, new):
            require_own_place(config, each)
        async with (
            opened(store_of(config, old, tell=reporter.note, changing=True)) as source,
            opened(store_of(config, new, tell=reporter.note, changing=not is_shared(new))) as target,
        ):
            done = await move_state(
                side(source, shown_url(old)),
                side(target, shown_url(new)),
                holder(),
                timeout_s=lock_timeout,
                reporter=reporter,
            )
            state = await target.load()
            return done, state_head(state.lineage, state.heads)

    done, head = run(main)
    emit(migrated_page(done.contents, head, shown_url(old), shown_url(new), config.env, before=done.before))
    return DONE


@command.command("rekey")
@output()
@options.state
@options.lock_timeout
@options.reason
@reports_failures
def rekey(env: str, state_url: str | None, sandbox: bool, lock_timeout: float, reason: str) -> int:
    """Encrypt the state, with a new key, to the recipients of `state.encrypt_to`; to none: decrypt it.

    All of it is written anew. Was it interrupted? Run it again; until then, no other command touches it.
    """
    from reconciler.cli.progress import make_reporter
    from reconciler.cli.sources import settings_here
    from reconciler.core.clock import SystemClock
    from reconciler.core.state_url import shown_url
    from reconciler.pipeline.attribution import holder
    from reconciler.pipeline.migrate import opened
    from reconciler.pipeline.private import require_own_place
    from reconciler.pipeline.rekey import Rekeyed
    from reconciler.pipeline.rekey import rekey as rekey_state
    from reconciler.pipeline.store import store_of

    if sandbox:
        raise click.UsageError("--sandbox: its state is a file of this machine, which is not encrypted")
    config, reporter = settings_here(env), make_reporter()
    url, by = state_url or config.settings.state_url, _by(Which(env, state_url, sandbox, reason))

    async def main() -> Rekeyed:
        require_own_place(config, url)
        async with opened(store_of(config, url, tell=reporter.note, changing=True)) as store:
            return await rekey_state(
                store,
                shown_url(url),
                SystemClock(),
                holder(),
                by,
                timeout_s=lock_timeout,
                reporter=reporter,
            )

    done = run(main)
    emit(
        rekeyed_page(
            shown_url(url),
            recipients=len(done.recipients),
            generation=done.generation,
            records=done.records,
            rows=done.rows,
            head_before=done.head_before,
            head=done.head,
        )
    )
    return DONE


@command.command("doctor")
@output()
@options.state
@reports_failures
def doctor(env: str, state_url: str | None, sandbox: bool) -> int:
    """Read and verify all of the state, and try out whether its store keeps its word.

    A shared store gets 4 writers that make 20 changes each, in a place of their own.
    """
    from reconciler.state import prove

    which = Which(env, state_url, sandbox)

    async def work(store: Store) -> tuple[State, bool]:
        proven, state = await prove(store), await store.load()
        if state.lineage:
            await maintenance_of(store).verify()
        return state, proven

    state, proven = _with_store(which, work, existing=False)
    emit(state_doctor_page(_place(which), state, proven=proven))
    return DONE


@command.command("ingest")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@output()
@options.state
@options.lock_timeout
@reports_failures
def ingest(file: Path, env: str, state_url: str | None, sandbox: bool, lock_timeout: float) -> int:
    """Take in the outcomes that an apply with --spool-to FILE could not store."""
    from reconciler.core.errors import ReconcilerError
    from reconciler.pipeline.attribution import holder
    from reconciler.state.spooling import Spooling

    async def work(store: Store) -> int:
        assert isinstance(store, Spooling)
        return await store.ingest(lines, holder(), timeout_s=lock_timeout)

    which = Which(env, state_url, sandbox)
    try:
        lines = file.read_bytes()
        number = _with_store(which, work)
    except (OSError, ValueError) as failure:
        raise ReconcilerError(
            f"{file} does not hold what --spool-to wrote: {failure}", help="name that file, unchanged"
        ) from failure
    taken = counted(number, "outcome")
    emit(Page(document={"ingested": number}, text=f"{_place(which)}: took in {taken} from {file}\n"))
    return DONE


@command.command("backup")
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@output()
@options.state
@reports_failures
def backup(file: Path | None, env: str, state_url: str | None, sandbox: bool) -> int:
    """Copy the state to FILE, and verify the copy. A state in a file keeps backups beside itself, too."""
    from reconciler.core.clock import SystemClock
    from reconciler.state import copies

    which = Which(env, state_url, sandbox)
    made = _with_store(which, lambda store: copies.backup(store, file, SystemClock()))
    emit(Page(document={"backup": str(made)}, text=f"backup: {made}\n"))
    return DONE


@command.command("restore")
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@options.auto_approve
@output()
@options.state
@options.reason
@reports_failures
def restore(
    file: Path | None, auto_approve: bool, env: str, state_url: str | None, sandbox: bool, reason: str
) -> int:
    """Replace a damaged state by a backup (the newest good one), and salvage what can be read.

    A shared state comes back to a place that holds none.
    """
    from reconciler.cli.signals import blocking
    from reconciler.cli.sources import settings_here
    from reconciler.core.clock import SystemClock
    from reconciler.core.state_url import is_shared
    from reconciler.state import copies

    which = Which(env, state_url, sandbox, reason)
    config = settings_here(env, sandbox=sandbox)
    if not auto_approve:
        if not sys.stdin.isatty():
            raise click.UsageError("cannot ask on standard input: pass --auto-approve")
        chosen = str(file) if file is not None else "the newest good backup"
        place = _place(which)
        question = f"Put the state of {chosen} at {place}? Files that are there are kept as *.damaged-TIME."
        if is_shared(state_url or config.settings.state_url):
            question = f"Put the state of {chosen} at {place}, where there must be none?"
        with blocking():
            sure = click.confirm(question, err=True)
        if not sure:
            click.echo("nothing was changed", err=True)
            return FAILED
    by = str(_by(which))
    done: Restored = _with_store(
        which,
        lambda store: copies.restore(store, file, config.env, SystemClock(), by),
        existing=False,
        pinned=False,
    )
    emit(restored_page(done, options.of_this_run()))
    return DONE


def _load(which: Which) -> State:
    found: State = _with_store(which, lambda store: store.load())
    return found


def _actor() -> "tuple[Clock, str, str]":
    """The clock, the name of this process, and the id of what it does, for the journal."""
    import uuid

    from reconciler.core.clock import SystemClock
    from reconciler.pipeline.attribution import holder

    return SystemClock(), holder(), uuid.uuid4().hex


def _by(which: Which) -> "Attribution":
    """Who decides, and why, for the journal."""
    from reconciler.cli.sources import settings_here
    from reconciler.pipeline.attribution import attribution_of

    return attribution_of(settings_here(which.env, sandbox=which.sandbox), which.reason)


def _place(which: Which) -> str:
    from reconciler.cli.sources import settings_here
    from reconciler.core.state_url import shown_url

    return shown_url(which.state_url or settings_here(which.env, sandbox=which.sandbox).settings.state_url)


def _with_store(
    which: Which,
    work: Callable[[Store], Awaitable[Any]],
    *,
    environment: str | None = None,
    existing: bool = True,
    pinned: bool = True,
) -> Any:
    """What `work` returns. `environment`: whose state it is, instead of the chosen environment's.

    Raises Refused where there is no state, unless it need not be `existing`, and where it is another one than
    the settings pin, unless it need not be `pinned`.
    """
    from reconciler.cli.progress import make_reporter
    from reconciler.cli.sources import settings_here
    from reconciler.pipeline.identity import refuse_missing
    from reconciler.pipeline.open import open_state

    config = settings_here(which.env, sandbox=which.sandbox)

    async def main() -> Any:
        async with open_state(
            config,
            which.state_url,
            environment=environment,
            pinned=pinned,
            tell=make_reporter().note,
        ) as store:
            if existing:
                refuse_missing(await store.load(), _place(which))
            return await work(store)

    return run(main)


def _nothing(message: str) -> Exception:
    from reconciler.core.errors import ReconcilerError

    listed = advice.command("state", "list")
    return ReconcilerError(message, help=f"`{listed}` shows what is", advice=(listed,))
