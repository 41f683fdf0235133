"""Backups of any state in a file, which is a SQLite state, and the way back into any place."""

from datetime import UTC, datetime
from pathlib import Path

import anyio
from msgspec.structs import replace

from reconciler.core.advice import command
from reconciler.core.clock import Clock
from reconciler.core.errors import StateMoved, StoreError
from reconciler.state import backend_of, files_of, is_encrypted, sealing_of
from reconciler.state.contents import verify, with_entry
from reconciler.state.encryption import older
from reconciler.state.log.bucket import unsealed
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.spooling import Spooling
from reconciler.state.store import LOST_ROWS, WHOLE_STATE, Event, JournalEntry, Restored, Store


async def backup(store: Store, target: Path | None, clock: Clock) -> Path:
    """A complete, verified copy in `target`, which must not exist; for a state in files, also among its own.

    That of an encrypted state is encrypted as that is. Raises StoreError.
    """
    if (files := files_of(store)) is not None:
        return await files.backup(target)
    if target is None:
        raise StoreError("this state keeps no backups beside itself", help="name a FILE for the copy")
    contents = await backend_of(store).export()
    if contents.moved_to:
        raise StateMoved(target, contents.moved_to)
    sealing = sealing_of(store)
    seal = sealing.over if sealing is not None and is_encrypted(store) else unsealed
    copy = SqliteStore(target, clock, backups=False, environment=contents.environment, seal=seal)
    try:
        await copy.import_(contents)
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
        raise StoreError("this state keeps no backups beside itself", help="name the FILE of a backup")
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
        done = replace(done, lost=lost)
        await backend_of(store).accept()
        lease = await store.inner.lease([WHOLE_STATE], by)
        try:
            await store.inner.commit(lease, [_note(lost, by, "", clock)])
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
        raise StoreError("this state keeps no backups beside itself", help="name the FILE of a backup")
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
    await backend_of(store).import_(with_entry(contents, WHOLE_STATE, _note(lost, by, file.name, clock)))
    return Restored(str(file), taken_at, "", 0, (), lost, "restored")


def _note(lost: str, by: str, backup: str, clock: Clock) -> JournalEntry:
    """What every plan then says. `backup`: the name of the file that was restored; "" for none."""
    note = {"restored": backup, "by": by, "lost": lost, "unclaimed": LOST_ROWS, "because": lost}
    return JournalEntry("", Event.DECIDED, clock.now(), data=note)
