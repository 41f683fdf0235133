"""What a state remembers between runs that is about no object, such as the rules of the last apply.

It is a record as any other, so that every store keeps it, moves it and encrypts it.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from reconciler.core.model import Address, Lifecycle, StateRecord
from reconciler.pipeline.actor import Actor
from reconciler.state.store import REMEMBERED, WHOLE_STATE, Lease, State, Store

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
