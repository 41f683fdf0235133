"""Copies of a whole state: backup, restore, the move to another place, another key. One way for all of them.

A state is read as a `StateDump`, from any place and of any older format, and is written to a place that holds
none. A backup is a copy in a file, which is a SQLite state. Only a state in a file has more: the backups that
it makes by itself, and a restore in its own place, with all that its damaged file still proves.

At no moment two states can be written. What comes to a new place first is a copy that says so. The one step
that moves the state is the mark on the old side (`LogStore.retire`): before it the old side is the state,
after it the new one. Killed anywhere, the same move can be run again; a run that finds the copy after that
step, and can read the old side, ends it (`end_move`).

For another key (encrypting it, to other recipients, or no longer), all of it is written anew under a
new content key. First the state is marked as being given another key, so that nobody can change it;
what then replaces it appears as a whole. Killed between the two, the state still is what it was, and
every verb refuses it until the same command ends what it began.
"""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import anyio
from msgspec import Struct, structs

from reconciler.core.advice import command
from reconciler.core.clock import Clock
from reconciler.core.errors import COPY, REKEYING, ReconcilerError, StateMoved, StoreError
from reconciler.core.reporter import Reporter
from reconciler.execution.decisions import Actor
from reconciler.execution.leasing import leased
from reconciler.state import backend_of, files_of, is_encrypted, sealing_of
from reconciler.state.chain import state_head
from reconciler.state.contents import StateDump, same, verify, with_entry
from reconciler.state.encryption import older
from reconciler.state.log.bucket import unsealed
from reconciler.state.log.store import LogStore
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.spooling import Spooling
from reconciler.state.store import LOST_ROWS, WHOLE_STATE, Event, JournalEntry, Restored, Store


async def _written(contents: StateDump, target: LogStore) -> None:
    """Write a state to a place without one, and compare. Raises StoreError."""
    await target.import_(contents)
    copied = await target.export()
    verify(copied)
    if not same(contents, copied):
        raise StoreError(
            f"the copy at {target.bucket.place} is not what was written",
            help="the state that was copied is unchanged; is that store to be trusted?",
        )


# --- a backup, and the way back ---


async def backup(store: Store, target: Path | None, clock: Clock) -> Path:
    """A complete, verified copy in `target`, which must not exist; for a state in a file, also among its own.

    That of an encrypted state is encrypted as that is. Raises StoreError.
    """
    if (files := files_of(store)) is not None:
        return await files.backup(target)
    if target is None:
        raise _no_backups("name a FILE for the copy")
    contents = await backend_of(store).export()
    if contents.moved_to:
        raise StateMoved(target, contents.moved_to)
    sealing = sealing_of(store)
    seal = sealing.over if sealing is not None and is_encrypted(store) else unsealed
    copy = SqliteStore(target, clock, backups=False, environment=contents.environment, seal=seal)
    try:
        await _written(contents, copy)
    finally:
        await copy.close()
    return target


async def require_backup(store: Spooling) -> str:
    """What a state lacks that goes on as it is (`Spooling.lost`); "" where a backup is to replace it.

    Raises StoreError where there is neither a state nor a backup. What is damaged is not judged.
    """
    if lost := await store.lost():
        return lost
    if (files := files_of(store)) is None:
        raise _no_backups("name the FILE of a backup")
    if (await files.backups()).newest is not None:
        return ""
    try:
        is_missing = not (await store.load()).lineage
    except StoreError:
        return ""
    if is_missing:
        raise StoreError(
            "there is no state here, and no backup beside it",
            help="name the FILE of a backup; without one, see the runbook: a lost state without a backup",
        )
    return ""


async def bring_back(store: Spooling, file: Path | None, environment: str, clock: Clock, by: str) -> Restored:
    """As `restore`. Without a `file`, an older copy of the state becomes the newest one, as it is."""
    done = Restored("", None, "", 0, (), "", "kept")
    lost = await store.lost() if file is None else ""
    if not lost:
        done = await restore(store, file, environment, clock, by)
        lost = "" if done.lost else await store.lost()
    if lost:
        lost += f": look on the platform for objects that `{command('state', 'list')}` does not show"
        done = structs.replace(done, lost=lost)
        await backend_of(store).accept()
        lease = await store.inner.lease([WHOLE_STATE], by)
        try:
            await store.inner.commit(lease, [restored_note(lost, by, "", clock.now())])
        finally:
            await store.inner.release(lease)
    await store.accept()
    return done


async def restore(store: Store, file: Path | None, environment: str, clock: Clock, by: str) -> Restored:
    """Bring back what a backup holds; see `SqliteStore.restore`. A shared state comes to an empty place.

    What was done after the backup is not in it, which every plan says until a person has looked. Raises
    StoreError.
    """
    if (files := files_of(store)) is not None:
        return await files.restore(file, by=by)
    if file is None:
        raise _no_backups("name the FILE of a backup")
    sealing = sealing_of(store)
    seal = sealing.opening if sealing is not None else unsealed
    source = SqliteStore(file, clock, backups=False, environment=environment, read_only=True, seal=seal)
    try:
        contents = await source.export()
    finally:
        await source.close()
    if contents.moved_to:
        raise StateMoved(file, contents.moved_to)
    taken_at = datetime.fromtimestamp((await anyio.Path(file).stat()).st_mtime, UTC)
    listed = command("state", "list")
    lost = (
        f"what was done between {taken_at.isoformat()} and {clock.now().isoformat()} is not in the backup: "
        f"look on the platform for objects made since then that `{listed}` does not show"
    )
    if sealing is not None:
        contents = older.opened(contents, sealing.encryption.unwrap)
    verify(contents)
    noted = with_entry(contents, WHOLE_STATE, restored_note(lost, by, file.name, clock.now()))
    await _written(noted, backend_of(store))
    return Restored(str(file), taken_at, "", 0, (), lost, "restored")


def restored_note(lost: str, by: str, backup: str, at: datetime) -> JournalEntry:
    """What every plan then says. `backup`: the name of the file that was restored; "" for none."""
    note = {"restored": backup, "by": by, "lost": lost, "unclaimed": LOST_ROWS, "because": lost}
    return JournalEntry("", Event.DECIDED, at, data=note)


def _no_backups(help: str) -> StoreError:
    return StoreError("this state keeps no backups beside itself", help=help)


# --- to another place ---


class Side(Struct, frozen=True):
    """A place that a state moves from or to. `url` holds no password."""

    store: Store
    url: str

    @property
    def movable(self) -> LogStore:
        return backend_of(self.store)


class Migrated(Struct, frozen=True):
    """The state at the new place. `before`: it was there already; at most the last step was due."""

    contents: StateDump
    before: bool = False


async def migrate(
    source: Side, target: Side, holder: str, *, timeout_s: float, reporter: Reporter | None = None
) -> Migrated:
    """Move the state from `source` to `target`, or end such a move.

    Raises Locked while a run holds any lease, StateMoved where `source` has moved elsewhere, and StoreError;
    then the state is where it was, unless its last write was under way.
    """
    left = await source.movable.export()
    if left.moved_to:
        if left.moved_to != target.url:
            raise StateMoved(source.url, left.moved_to)
        return Migrated(await end_move(source, target), before=True)
    await target.movable.probe()
    scopes = {WHOLE_STATE, *left.heads}
    async with leased(source.store, scopes, holder, timeout_s=timeout_s, reporter=reporter) as lease:
        contents = await source.movable.export()
        await _written(replace(contents, moved_to=COPY + source.url), target.movable)
        await source.store.check(lease)
        await source.movable.retire(target.url, contents)
    await target.movable.revive()
    return Migrated(contents)


async def end_move(source: Side, target: Side) -> StateDump:
    """Make the copy at `target` the state, once `source` has moved there; returns what it holds.

    Raises StateMoved where it has not, or where something else than a copy is at `target`.
    """
    left, copied = await source.movable.export(), await target.movable.export()
    if left.moved_to != target.url or left.lineage != copied.lineage:
        raise StateMoved(target.url, copied.moved_to or source.url)
    if copied.moved_to and copied.moved_to != COPY + source.url:
        raise StateMoved(target.url, copied.moved_to)
    if copied.moved_to:
        await target.movable.revive()
    return copied


# --- with another key ---


class Rekeyed(Struct, frozen=True):
    """`recipients`: none for a state that is no longer encrypted. `generation` counts its content keys.

    `head_before`, `head`: of the state (`chain.state_head`), before and after the note of the rekey.
    """

    recipients: tuple[str, ...]
    generation: int
    records: int
    rows: int
    head_before: str
    head: str


async def rekey(store: Spooling, place: str, actor: Actor) -> Rekeyed:
    """`store`: as the settings say, and opened however it is encrypted. Ends what an earlier call began.

    Raises Locked while a run holds any lease, StateMoved for a state that is elsewhere, StateSealed before
    anything is written where nobody here could read the state afterwards, and StoreError.
    """
    sealing, movable = sealing_of(store), backend_of(store)
    if sealing is None:
        migrate = command("state", "migrate", "URL")
        raise ReconcilerError(
            f"the state {place} is in a file of this machine, which is not encrypted",
            help=f"move it to a shared store first: `{migrate}`",
            advice=(migrate,),
        )
    sealing.encryption.require_readable()
    left = await movable.export()
    if not left.moved_to:
        # Nobody can change the state until it has another key.
        async with actor.leased(store, {WHOLE_STATE, *left.heads}) as lease:
            left = await movable.export()
            verify(left)
            await store.check(lease)
            await movable.retire(REKEYING, left)
        left = await movable.export()
    if left.moved_to != REKEYING:
        raise StateMoved(place, left.moved_to)
    left = older.opened(left, sealing.encryption.unwrap)
    verify(left)
    recipients = sealing.encryption.recipients
    generation = sealing.generation + 1 if recipients else 0
    before = state_head(left.lineage, left.hashes)
    said = {"rekeyed": len(recipients), "generation": generation, "head": before}
    noted = with_entry(left, WHOLE_STATE, actor.decided(said))
    await movable.import_(replace(noted, moved_to=""))
    state = await store.load()
    head = state_head(state.lineage, state.heads)
    return Rekeyed(recipients, generation, len(state.records), len(noted.rows), before, head)
