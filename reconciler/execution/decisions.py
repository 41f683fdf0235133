"""Decisions that change a state without a plan: their author, and notes that the state keeps.

A note is about no object: for example, the approval rules of the last apply. It is stored as a record, so
that every store keeps it, moves it and encrypts it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.core.clock import Clock
from reconciler.core.context import UNATTRIBUTED, Attribution
from reconciler.core.model import Address, Lifecycle, StateRecord
from reconciler.core.reporter import Reporter
from reconciler.execution.leasing import leased
from reconciler.state.renewing import lasts_s
from reconciler.state.store import REMEMBERED, WHOLE_STATE, Event, JournalEntry, Lease, State, Store

_NOTE_S = 10.0  # others hold the whole state only for a moment, or after a death until their lease ends


class Actor(Struct, frozen=True):
    """The author of a decision. `holder`: this process, for people. `by`: the person, and the reason.

    `run`: the decision's id in the journal. `timeout_s`: how long to wait for a lock.
    """

    clock: Clock
    holder: str
    by: Attribution = UNATTRIBUTED
    run: str = ""
    timeout_s: float = 0.0
    reporter: Reporter = field(default_factory=Reporter)

    def leased(self, store: Store, scopes: Collection[str]) -> AbstractAsyncContextManager[Lease]:
        """As `leasing.leased`."""
        return leased(store, scopes, self.holder, timeout_s=self.timeout_s, reporter=self.reporter)

    def for_a_note(self, store: Store) -> "Actor":
        """The same actor, who waits as long as others may hold the whole state for a note."""
        return replace(self, timeout_s=max(self.timeout_s, _NOTE_S + lasts_s(store)))

    def decided(self, data: Mapping[str, Any], address: Address | None = None) -> JournalEntry:
        """The journal entry of a decision that is made now."""
        said = {**data, **self.by.to_json()}
        return JournalEntry(self.run, Event.DECIDED, self.clock.now(), address, data=said)


MADE = "made"  # under this name the state remembers when it was made
Content = Mapping[str, Any]  # JSON without secret values
_NOTHING: Content = MappingProxyType({})


def recall(state: State, name: str) -> Content:
    """The note `name` of `state`; empty if there is none."""
    found = state.remembered.get(name)
    return found.applied if found is not None else _NOTHING


Renewal = Callable[[Content], Content]  # from a note to what it becomes


async def remember(
    store: Store,
    actor: Actor,
    name: str,
    new: Renewal,
    held: Lease | None = None,
    *,
    known: State | None = None,
) -> None:
    """Replace the note `name` by `new(note)`; nothing is written if that changes nothing.

    Takes the lease of the whole state for a moment, unless `held` covers it, so that no change of another run
    is lost. `known`: the state, if it was loaded just now. Raises Locked, and StoreError if the store does
    not accept the note.
    """
    entries = [actor.decided({"remembered": name})]
    await _renew(store, actor, {name: new}, entries, held, known or await store.load())


async def remember_seen(store: Store, actor: Actor, notes: Mapping[str, Renewal], known: State) -> bool:
    """Replace all `notes` in one commit, as `remember` does one. Nobody decides them: none is journaled.

    Returns whether anything was written.
    """
    return await _renew(store, actor, notes, [], None, known)


async def _renew(
    store: Store,
    actor: Actor,
    notes: Mapping[str, Renewal],
    entries: Sequence[JournalEntry],
    held: Lease | None,
    before: State,
) -> bool:
    if all(new(recall(before, name)) == recall(before, name) for name, new in notes.items()):
        return False
    if held is not None and WHOLE_STATE in held.scopes:
        await _write(store, held.of(WHOLE_STATE), actor, notes, entries)
        return True
    async with actor.for_a_note(store).leased(store, {WHOLE_STATE}) as lease:
        await _write(store, lease, actor, notes, entries)
    return True


async def _write(
    store: Store, lease: Lease, actor: Actor, notes: Mapping[str, Renewal], entries: Sequence[JournalEntry]
) -> None:
    """Commit the new notes, under the lease of the whole state."""
    state = await store.load()
    records = [
        StateRecord(
            Address(REMEMBERED, name),
            "",
            WHOLE_STATE,
            new(recall(state, name)),
            Lifecycle(),
            actor.clock.now(),
            serial=state.remembered[name].serial if name in state.remembered else 0,
        )
        for name, new in notes.items()
    ]
    await store.commit(lease, entries, records)
