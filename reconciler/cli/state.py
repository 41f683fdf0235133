"""`reconcile state`: verbs about the records, and about the state as a whole."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TextIO

import click
from msgspec.structs import asdict, replace

from reconciler.cli import options
from reconciler.cli.addresses import ADDRESS, DECLARABLE
from reconciler.cli.chosen_state import ChosenState
from reconciler.cli.command_line import of_this_run
from reconciler.cli.event_loop import run
from reconciler.cli.group import LOCK_TIMEOUT, REASON, Group
from reconciler.cli.output import emit
from reconciler.cli.signals import confirmed
from reconciler.cli.verb import DONE, FAILED, argument, flag, option, verb
from reconciler.core import advice
from reconciler.core.clock import SystemClock
from reconciler.core.diagnostics import Diagnostic
from reconciler.core.errors import ReconcilerError, named
from reconciler.core.model import Address, owed_work
from reconciler.core.state_url import is_shared, shown_url
from reconciler.core.words import counted
from reconciler.kinds import find_kinds
from reconciler.planning.decide import recorded_twice
from reconciler.project import copies, identity, records
from reconciler.project.attribution import holder
from reconciler.project.records import no_record_of, not_recorded, older_objects
from reconciler.project.sections import check_address
from reconciler.project.store import Opening, open_state
from reconciler.reports import records as pages
from reconciler.reports.escape import visible
from reconciler.reports.fragments import DiagnosticJson
from reconciler.reports.report import Page, advise
from reconciler.state import backend_of, files_of
from reconciler.state.chain import state_head
from reconciler.state.spooling import Spooling
from reconciler.state.store import REMEMBERED


@click.group("state", cls=Group, moved={"doctor": "doctor --probe-state"})
def command() -> None:
    """Work with the state, which holds the records of your objects."""


@verb("list", of=command)
def list_records(chosen: ChosenState) -> None:
    """List the records: address, id, owed work; and objects recorded under two addresses."""
    state = chosen.load()
    doubts = [*recorded_twice(find_kinds(), state.records)]
    doubts += (no_record_of(entry, (), ()) for entry in state.unclaimed)
    page = pages.records_page(state, doubts, of_this_run())
    emit(replace(page, context=chosen.context(state)))


@verb("show", of=command)
def show(chosen: ChosenState, address: Address = argument(type=ADDRESS)) -> None:
    """Show the record of one address. Secrets appear only as keyed fingerprints."""
    known = chosen.load().records
    record = known.get(address)
    if record is None:
        raise not_recorded(address, known)
    emit(pages.record_page(record))


@verb("mv", *options.DECIDES, of=command, by_people=True)
def mv(
    chosen: ChosenState,
    source: Address = argument(metavar="FROM", type=ADDRESS),
    target: Address = argument(metavar="TO", type=DECLARABLE),
) -> None:
    """Move a record to another address, after its manifest was renamed.

    Addresses without an [index] move all of a `count`. A Moved manifest does the same, with a review.
    """
    moved = chosen.use(lambda store: records.move(store, source, target, chosen.actor()))
    emit(pages.moved_page(source, moved))


@verb("forget", *options.DECIDES, of=command, report=None, by_people=True)
def forget(
    chosen: ChosenState,
    address: Address | None = argument(required=False, type=ADDRESS),
    unclaimed: Sequence[str] = option(
        "--unclaimed",
        "Stop reporting this untracked object; may be repeated. `all`: all that are older than the state.",
        metavar="ID",
        multiple=True,
    ),
) -> None:
    """Drop the record and leave the object alone. The next apply adopts or creates again."""
    if (address is None) == (not unclaimed):
        raise click.UsageError("give either an ADDRESS or --unclaimed ID")
    actor = chosen.actor()
    for id in unclaimed:
        if not chosen.use(partial(records.claim, id=id, actor=actor)):
            listed = advice.command("state", "list")
            message = f"no unclaimed object `{id}` is known"
            raise ReconcilerError(message, help=f"`{listed}` shows what is", advice=(listed,))
        click.echo(f"dismissed: {id}")
    if address is None:
        return
    known = chosen.load().records
    record = known.get(address)
    if not chosen.use(lambda store: records.forget(store, address, actor)):
        raise not_recorded(address, known)
    click.echo(f"forgotten: {address} (the object itself is left alone)")
    for owed in owed_work({address: record}) if record is not None else ():
        click.echo(visible(f"  with it: {owed.work} owed ({owed.certainty}), because {owed.because}"))


@verb("set-platform", *options.DECIDES, of=command, by_people=True)
def set_platform(chosen: ChosenState, url: str = argument()) -> None:
    """Record that the platform, with all recorded objects, is now at URL."""
    if chosen.sandbox:
        raise click.UsageError("--sandbox: its state is about the sandbox, whatever its address is")
    check_address(url)
    before = chosen.use(lambda store: identity.set_platform(store, url, chosen.actor()))
    was = f" (was {before})" if before not in ("", url) else ""
    text = f"{chosen.place}: about the platform at {url}{was}\n"
    emit(Page(document={"platform": url, "before": before or None}, text=text))


# --- the state itself: make, unlock, move, encrypt and copy it ---


@verb("init", of=command, by_people=True)
def init(
    chosen: ChosenState,
    take_over: bool = flag("--take-over", "With --env: hand the state of base over to this environment."),
    new: bool = flag("--new", hidden=True),
) -> None:
    """Create the state that apply needs. Does nothing if it exists."""
    if new:
        click.echo(f"warning: {identity.NEW_IGNORED}", err=True)
    environment, taken = chosen.config.env, False
    if take_over:
        if not environment:
            raise click.UsageError("--take-over: name with --env the environment that gets it")
        taken = chosen.use(
            lambda store: backend_of(store).take_over(environment, by=str(chosen.by)),
            existing=False,
            environment="",
        )

    async def work(store: Spooling) -> tuple[bool, str]:
        created = await identity.create_state(store, chosen.actor(run=""))
        await store.accept()
        return created, (await store.load()).lineage

    created, lineage = chosen.use(work, existing=False)
    place = chosen.place
    if take_over:
        now = "is from now on" if taken else "is already"
        text = f"{place}: {now} the state of environment {environment}\n"
    else:
        text = f"{place}: {'created' if created else 'exists already'}\n"
    if not chosen.sandbox and chosen.config.settings.state.lineage is None:
        text += pages.pin_lines(place, lineage, environment)
    older: Sequence[Diagnostic] = ()
    if created and not chosen.sandbox:
        with suppress(ReconcilerError):  # where the platform cannot be read, none is known
            desired = chosen.load_desired()
            older = chosen.use_project(
                lambda project: older_objects(project, desired.by_address), policies=desired.policies
            )
    older = advise(older, of_this_run())
    text += "".join(
        f"{found.message}\n  {', '.join(found.addresses)}\n  = help: {found.help}\n" for found in older
    )
    document = {"state": place, "lineage": lineage, "created": created}
    document |= {"diagnostics": DiagnosticJson.all_of(older), **({"taken_over": taken} if take_over else {})}
    emit(Page(document=document, text=text))


@verb("unlock", REASON, of=command, report=None, by_people=True)
def unlock(
    chosen: ChosenState,
    scopes: Sequence[str] = argument(metavar="SCOPE...", nargs=-1, required=True),
    force: bool = flag("--force", "Break the lock even if its owner is still running."),
) -> None:
    """Unlock scopes (an app, org/SLUG, '') after their owner hangs. A dead owner holds no lock."""

    async def work(store: Spooling) -> None:
        for scope in scopes:
            freed = await backend_of(store).unlock(scope, force=force, by=str(chosen.by))
            click.echo(f"{scope or named(scope)}: {freed}")

    chosen.use(work)


@verb("migrate", LOCK_TIMEOUT, of=command, by_people=True)
def migrate(chosen: ChosenState, url: str | None = argument(required=False)) -> None:
    """Move the state to URL, a place without one, and leave a mark where it was.

    Nobody can write to two of them at any moment. Was it interrupted? Run it again. Without URL: bring a
    state that an older program wrote to the version of this one, where it is.
    """

    async def in_place(store: Spooling) -> bool:
        files = files_of(store)  # the next verb that writes migrates a shared one
        return files is not None and await files.migrate()

    if url is None:
        migrated = chosen.use(in_place)
        text = f"{chosen.place}: {'migrated' if migrated else 'has the newest version'}\n"
        emit(Page(document={"state": chosen.place, "migrated": migrated}, text=text))
        return
    if chosen.sandbox:
        raise click.UsageError("--sandbox: its state stays where its world is")
    config, reporter, old, new = chosen.config, chosen.reporter, chosen.url, url

    async def main() -> tuple[copies.Migrated, str]:
        from_here = Opening(old, tell=reporter.note, changing=True)
        to_there = Opening(new, tell=reporter.note, changing=True)
        async with open_state(config, from_here) as source, open_state(config, to_there) as target:
            done = await copies.migrate(
                copies.Side(source, shown_url(old)),
                copies.Side(target, shown_url(new)),
                holder(),
                timeout_s=chosen.lock_timeout,
                reporter=reporter,
            )
            state = await target.load()
            await target.accept()
            return done, state_head(state.lineage, state.heads)

    done, head = run(main)
    contents = done.contents
    objects = sum(address.kind != REMEMBERED for address in contents.records)
    rows, from_old, to_new = len(contents.rows), shown_url(old), shown_url(new)
    document = {"from": from_old, "to": to_new, "lineage": contents.lineage, "records": objects}
    how = "an earlier move, completed" if done.before else "copied and verified"
    held = f"{counted(objects, 'record')}, {counted(rows, 'journal row')}"
    text = f"{from_old}: the state is now {to_new} ({held}; {how})\n"
    text += pages.pin_lines(to_new, contents.lineage, config.env)
    emit(Page(document=document | {"rows": rows, "head": head}, text=text))


@verb("rekey", *options.DECIDES, of=command, by_people=True)
def rekey(
    chosen: ChosenState,
    without_me: TextIO | None = option(
        "--without-me",
        "You leave: FILE holds an identity of a recipient who stays, to prove that it opens the state.",
        type=click.File(),
        metavar="FILE",
    ),
) -> None:
    """Encrypt the state, with a new key, to the recipients of `state.encrypt_to`; to none: decrypt it.

    Your own identity must open it afterwards, too.
    All of it is written anew. Was it interrupted? Run it again; until then, no other command touches it.
    """
    if chosen.sandbox:
        raise click.UsageError("--sandbox: its state is a file of this machine, which is not encrypted")
    actor = chosen.actor(run="")

    async def main() -> copies.Rekeyed:
        others = without_me.read() if without_me is not None else ""
        opening = Opening(chosen.url, tell=chosen.reporter.note, changing=True, others=others)
        async with open_state(chosen.config, opening) as store:
            return await copies.rekey(store, chosen.place, actor)

    done = run(main)
    how = "not encrypted any more"
    if done.recipients:
        how = f"encrypted to {counted(len(done.recipients), 'recipient')}, with key {done.generation}"
    written = f"{counted(done.records, 'record')}, {counted(done.rows, 'journal row')}"
    text = f"{chosen.place}: {how} ({written})\nhead: {done.head}, before {done.head_before}\n"
    document = {"state": chosen.place, **asdict(done), "recipients": len(done.recipients)}
    emit(Page(document=document, text=text))


@verb("ingest", LOCK_TIMEOUT, of=command, by_people=True)
def ingest(chosen: ChosenState, file: Path = argument(type=options.FOUND)) -> None:
    """Take in the outcomes that an apply with --spool-to FILE could not store."""

    async def work(store: Spooling) -> int:
        return await store.ingest(lines, holder(), timeout_s=chosen.lock_timeout)

    try:
        lines = file.read_bytes()
        number = chosen.use(work)
    except (OSError, ValueError) as failure:
        raise ReconcilerError(
            f"{file} does not hold what --spool-to wrote: {failure}", help="name that file, unchanged"
        ) from failure
    taken = counted(number, "outcome")
    emit(Page(document={"ingested": number}, text=f"{chosen.place}: took in {taken} from {file}\n"))


@verb("backup", of=command)
def backup(chosen: ChosenState, file: Path | None = argument(required=False, type=options.FILE)) -> None:
    """Copy the state to FILE, and verify the copy. A state in a file keeps backups next to itself, too."""
    made = chosen.use(lambda store: copies.backup(store, file, SystemClock()))
    emit(Page(document={"backup": str(made)}, text=f"backup: {made}\n"))


@verb("restore", REASON, options.AUTO_APPROVE, of=command, by_people=True)
def restore(
    auto_approve: bool, chosen: ChosenState, file: Path | None = argument(required=False, type=options.FOUND)
) -> int:
    """Replace a damaged state by a backup (the newest good one), and salvage what can be read.

    A shared state comes back to a place that holds none.
    """
    lost = chosen.use(copies.require_backup, existing=False, pinned=False) if file is None else ""
    if not auto_approve:
        if not sys.stdin.isatty():
            raise click.UsageError("cannot ask on standard input: pass --auto-approve")
        source = str(file) if file is not None else "the newest good backup"
        place = chosen.place
        question = f"Put the state of {source} at {place}? Files that are there are kept as *.damaged-TIME."
        if lost:
            question = f"{lost}. Go on with it as it is?"
        elif is_shared(chosen.url):
            question = f"Put the state of {source} at {place}, where there must be none?"
        if not confirmed(question):
            click.echo("nothing was changed", err=True)
            return FAILED
    by = str(chosen.by)
    done = chosen.use(
        lambda store: copies.bring_back(store, file, chosen.config.env, SystemClock(), by),
        existing=False,
        pinned=False,
    )
    emit(pages.restored_page(done, of_this_run()))
    return DONE
