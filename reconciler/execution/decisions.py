"""Decisions that change a state without a plan: who makes them, and what a state remembers of them.

Such a memory is about no object, as the rules of the last apply. It is a record as any other, so that
every store keeps it, moves it and encrypts it.
"""

from collections.abc import Callable, Collection, Mapping
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

_NOTE_S = 10.0  # others hold the whole state for a moment only, and one that died as long as its lease lasts


class Actor(Struct, frozen=True):
    """`holder`: this process, for people. `by`: who decides, and why. `run`: the id of it in the journal.

    `timeout_s`: how long a lock is waited for.
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
        """The same, who waits for as long as others may hold the whole state to note something."""
        return replace(self, timeout_s=max(self.timeout_s, _NOTE_S + lasts_s(store)))

    def decided(self, data: Mapping[str, Any], address: Address | None = None) -> JournalEntry:
        """The journal's entry of a decision that is made now."""
        said = {**data, **self.by.to_json()}
        return JournalEntry(self.run, Event.DECIDED, self.clock.now(), address, data=said)


Content = Mapping[str, Any]  # JSON without secret values
_NOTHING: Content = MappingProxyType({})


def recall(state: State, name: str) -> Content:
    """What `state` remembers under `name`; empty where it remembers nothing."""
    found = state.remembered.get(name)
    return found.applied if found is not None else _NOTHING


async def remember(
    store: Store,
    actor: Actor,
    name: str,
    new: Callable[[Content], Content],
    held: Lease | None = None,
    *,
    known: State | None = None,
) -> None:
    """Remember `new(what was remembered)` under `name`; nothing is written where that is the same.

    Takes the lease of the whole state for a moment, unless `held` covers it, so that no change of another
    run is lost. `known`: the state, if it was loaded just now. Raises Locked, and StoreError where the store
    cannot take it.
    """
    before = recall(known or await store.load(), name)
    if new(before) == before:
        return
    if held is not None and WHOLE_STATE in held.scopes:
        await _write(store, held.of(WHOLE_STATE), actor, name, new)
        return
    async with actor.for_a_note(store).leased(store, {WHOLE_STATE}) as lease:
        await _write(store, lease, actor, name, new)


async def _write(
    store: Store, lease: Lease, actor: Actor, name: str, new: Callable[[Content], Content]
) -> None:
    state = await store.load()
    record = StateRecord(
        Address(REMEMBERED, name),
        "",
        WHOLE_STATE,
        new(recall(state, name)),
        Lifecycle(),
        actor.clock.now(),
        serial=state.remembered[name].serial if name in state.remembered else 0,
    )
    await store.commit(lease, [actor.decided({"remembered": name})], [record])
