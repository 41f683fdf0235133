"""Decisions that change a state without a plan: their author, and notes that the state keeps.

A note is about no object: for example, the approval rules of the last apply. It is stored as a record, so
that every store keeps it, moves it and encrypts it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
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
    """Replace the note `name` by what `new` makes of it, unless that is the same.

    Under the lease of the whole state, `held` if the caller has it: so no change that others make meanwhile
    is lost. `known`: the state, if it was loaded just now. Raises Locked, and StoreError if the store does
    not accept the note.
    """
    said = [actor.decided({"remembered": name})]
    await remember_all(store, actor, {name: new}, held, known=known or await store.load(), entries=said)


async def remember_all(
    store: Store,
    actor: Actor,
    notes: Mapping[str, Renewal],
    held: Lease | None = None,
    *,
    known: State,
    entries: Sequence[JournalEntry] = (),
) -> bool:
    """Replace notes in one commit, as `remember` does one. Only what is in `entries` is journaled.

    Returns whether anything was written.
    """
    if all(new(recall(known, name)) == recall(known, name) for name, new in notes.items()):
        return False
    leased = actor.for_a_note(store).leased(store, {WHOLE_STATE})
    async with (
        nullcontext(held.of(WHOLE_STATE)) if held is not None and WHOLE_STATE in held.scopes else leased
    ) as lease:
        state = await store.load()
        found = {name: new(recall(state, name)) for name, new in notes.items()}
        records = [
            StateRecord(
                Address(REMEMBERED, name),
                "",
                WHOLE_STATE,
                content,
                Lifecycle(),
                actor.clock.now(),
                serial=state.remembered[name].serial if name in state.remembered else 0,
            )
            for name, content in found.items()
            if content != recall(state, name)
        ]
        await store.commit(lease, entries, records)
    return True
