"""Moves a state to another place, or gives it another key: at no moment two states can be written.

What comes to a new place first is a copy that says so. The one step that moves the state is the mark
on the old side (`LogStore.retire`): before it the old side is the state, after it the new one. Killed
anywhere, the same move can be run again; a run that finds the copy after that step, and can read the
old side, ends it (`end_move`).

For another key (encrypting it, to other recipients, or no longer), all of it is written anew under a
new content key. First the state is marked as being given another key, so that nobody can change it;
what then replaces it appears as a whole. Killed between the two, the state still is what it was, and
every verb refuses it until the same command ends what it began.
"""

from dataclasses import replace

from msgspec import Struct

from reconciler.core.advice import command
from reconciler.core.errors import COPY, REKEYING, ReconcilerError, StateMoved, StoreError
from reconciler.core.reporter import Reporter
from reconciler.execution.decisions import Actor
from reconciler.execution.leasing import leased
from reconciler.state import backend_of, sealing_of
from reconciler.state.chain import state_head
from reconciler.state.contents import StateDump, same, verify, with_entry
from reconciler.state.encryption import older
from reconciler.state.log.store import LogStore
from reconciler.state.spooling import Spooling
from reconciler.state.store import WHOLE_STATE, Store


class Side(Struct, frozen=True):
    """`store` is at `url`, which holds no password; `movable` is its backend."""

    store: Store
    movable: LogStore
    url: str


def side(store: Store, url: str) -> Side:
    """What is moved, or moved to."""
    return Side(store, backend_of(store), url)


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
        verify(contents)
        await target.movable.import_(replace(contents, moved_to=COPY + source.url))
        copied = await target.movable.export()
        verify(copied)
        if not same(contents, copied):
            raise StoreError(
                f"the copy at {target.url} is not what was written",
                help=f"the state is still {source.url}; is that store to be trusted?",
            )
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
