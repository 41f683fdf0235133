"""A record that moves to another scope: two commits, one in each, since no store changes two scopes at once.

The first puts it where it goes, and decides: from then on `State.records` shows it there only
(`rules.as_moved`). The second removes it where it was. Where a process dies in between, the next lease of
that scope makes the second one (`finish`).

No kind of this platform moves its records so: what an address names lives in its app, or organization. The
state's contract needs it (`StoreContract` in tests/state/contract.py): the journal of a state says what these
entries mean, so that a kind whose objects can change their app asks nothing new of any store.
"""

from datetime import datetime

from msgspec.structs import replace

from reconciler.core.model import Address, StateRecord
from reconciler.state.store import Event, JournalEntry, Lease, Store


async def move(
    store: Store, lease: Lease, source: StateRecord, target: Address, scope: str, run: str, at: datetime
) -> StateRecord:
    """Record the object of `source` under `target` in `scope`; that record comes back as stored.

    `lease` covers both scopes. Raises StoreError; nothing has moved then, or the next lease ends the move.
    """
    entry = arrived(source, target, run, at)
    put = replace(source, address=target, scope=scope, serial=0)
    (stored,) = await store.commit(lease.of(scope), [entry], [put])
    await store.commit(lease.of(source.scope), [left(entry, at)], remove=[source.address])
    return stored


async def finish(store: Store, lease: Lease, at: datetime) -> None:
    """Make the second commit of moves out of the scopes of `lease` that have only their first.

    Raises StoreError.
    """
    for entry in (await store.load()).half_moved:
        scope = entry.data["scope"]
        if scope in lease.epochs:
            await store.commit(lease.of(scope), [left(entry, at)], remove=[_source(entry)])


def arrived(source: StateRecord, target: Address, run: str, at: datetime) -> JournalEntry:
    """The entry of the first commit."""
    data = {"moved_from": str(source.address), "scope": source.scope, "id": source.id}
    return JournalEntry(run, Event.DECIDED, at, target, data=data)


def left(arrived: JournalEntry, at: datetime) -> JournalEntry:
    """The entry of the second commit."""
    source = _source(arrived)
    data = {"moved_away": str(source), "moved_to": str(arrived.address), "id": arrived.data["id"]}
    return JournalEntry(arrived.run, Event.DECIDED, at, source, data=data)


def _source(arrived: JournalEntry) -> Address:
    return Address.parse(arrived.data["moved_from"])
