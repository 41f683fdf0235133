"""Giving a state another key: encrypting it, to other recipients, or no longer.

All of it is written anew, under a new content key. First the state is marked as being given another key, so
that nobody can change it; what then replaces it appears as a whole. Killed between the two, the state still
is what it was, and every verb refuses it until the same command ends what it began.
"""

from dataclasses import replace

from msgspec import Struct

from reconciler.core.advice import command
from reconciler.core.errors import REKEYING, ReconcilerError, StateMoved
from reconciler.pipeline.actor import Actor
from reconciler.state import encrypting_of
from reconciler.state.chain import state_head
from reconciler.state.contents import Contents, verify, with_entry
from reconciler.state.encryption.envelope import Keys
from reconciler.state.encryption.store import Encrypting
from reconciler.state.spooling import Spooling
from reconciler.state.store import WHOLE_STATE


class Rekeyed(Struct, frozen=True):
    """`recipients`: none for a state that is no longer encrypted. `generation` counts its content keys.

    `head_before`, `head`: of the state (`chain.state_head`), which is another one with every key.
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
    encrypting = encrypting_of(store)
    if encrypting is None:
        migrate = command("state", "migrate", "URL")
        raise ReconcilerError(
            f"the state {place} is in a file of this machine, which is not encrypted",
            help=f"move it to a shared store first: `{migrate}`",
            advice=(migrate,),
        )
    encrypting.encryption.require_readable()
    left = await encrypting.raw.export()
    if not left.moved_to:
        await _close(store, encrypting, actor)
        left = await encrypting.raw.export()
    if left.moved_to != REKEYING:
        raise StateMoved(place, left.moved_to)
    keys, plain = await encrypting.opened_keys(left), await encrypting.plain(left)
    verify(plain)
    recipients = encrypting.encryption.recipients
    generation = (keys.generation if keys is not None else 0) + 1 if recipients else 0
    before = _head(left, keys)
    said = {"rekeyed": len(recipients), "generation": generation, "head": before}
    noted = with_entry(plain, WHOLE_STATE, actor.decided(said))
    await encrypting.replace(encrypting.sealed(replace(noted, moved_to=""), keys))
    state = await store.load()
    head = state_head(state.lineage, state.heads)
    return Rekeyed(recipients, generation, len(state.records), len(noted.rows), before, head)


def _head(contents: Contents, keys: Keys | None) -> str:
    """As `apply` has printed it: of a state as its backend has it."""
    name = keys.ciphers()[0].name if keys is not None else str
    return state_head(contents.lineage, {name(scope): hash for scope, hash in contents.hashes.items()})


async def _close(store: Spooling, encrypting: Encrypting, actor: Actor) -> None:
    """Let nobody change the state until it has another key."""
    scopes = {WHOLE_STATE, *(await encrypting.export()).heads}
    async with actor.leased(store, scopes) as lease:
        contents = await encrypting.raw.export()
        verify(contents)
        verify(await encrypting.plain(contents))
        await store.check(lease)
        await encrypting.raw.retire(REKEYING, contents)
