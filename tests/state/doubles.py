"""Stores for tests of what uses one: a state made on purpose, in memory, behind wrappers that misbehave."""

from collections.abc import Collection, Sequence
from pathlib import Path

from reconciler.core.clock import Clock
from reconciler.core.errors import StoreError
from reconciler.core.model import Address, StateRecord
from reconciler.state.memory import MemoryState, MemoryStore
from reconciler.state.rules import View
from reconciler.state.spooling import Spooling
from reconciler.state.store import Event, JournalEntry, Lease, State, Store


def holding(state: State, clock: Clock, key: bytes = bytes(range(32))) -> MemoryStore:
    """A store that holds `state` as it stands."""
    view = View(
        {(entry.run, entry.step, entry.attempt): entry for entry in state.open_intents},
        state.plans_run,
        {entry.data["unclaimed"]: entry for entry in state.unclaimed},
    )
    known = MemoryState(clock, lineage=state.lineage, key=key, records=state.records, view=view)
    return MemoryStore(known)


def read_only(state: State, clock: Clock, folder: Path) -> Spooling:
    """`state` for who may only look: planning must want nothing else of it."""
    return spooling(ReadOnly(holding(state, clock)), clock, folder)


def spooling(store: Store, clock: Clock, folder: Path) -> Spooling:
    return Spooling(store, folder / "outcomes.spool", clock)


class Passing:
    """Passes every call on to `inner`."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    async def load(self, scopes: Collection[str] | None = None) -> State:
        return await self.inner.load(scopes)

    async def fingerprint_key(self) -> bytes:
        return await self.inner.fingerprint_key()

    async def lease(self, scopes: Sequence[str], holder: str, *, timeout_s: float = 0) -> Lease:
        return await self.inner.lease(scopes, holder, timeout_s=timeout_s)

    async def renew(self, lease: Lease) -> Lease:
        return await self.inner.renew(lease)

    async def check(self, lease: Lease, for_s: float = 0) -> None:
        await self.inner.check(lease, for_s)

    async def release(self, lease: Lease) -> None:
        await self.inner.release(lease)

    async def commit(
        self,
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord] = (),
        remove: Sequence[Address] = (),
    ) -> Sequence[StateRecord]:
        return await self.inner.commit(lease, entries, put, remove)

    async def close(self) -> None:
        await self.inner.close()


class Unwritable(Passing):
    """Gives leases, and takes no commit."""

    async def commit(
        self,
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord] = (),
        remove: Sequence[Address] = (),
    ) -> Sequence[StateRecord]:
        raise StoreError("nothing may be written here")


class ReadOnly(Unwritable):
    """Gives no lease either."""

    async def lease(self, scopes: Sequence[str], holder: str, *, timeout_s: float = 0) -> Lease:
        raise StoreError("nobody may take a lease here")


class Failing(Passing):
    """The disk fills up at the first commit of `event`."""

    def __init__(self, inner: Store, event: Event) -> None:
        super().__init__(inner)
        self._event = event

    async def commit(
        self,
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord] = (),
        remove: Sequence[Address] = (),
    ) -> Sequence[StateRecord]:
        if any(entry.event is self._event for entry in entries):
            raise StoreError("the disk is full")
        return await super().commit(lease, entries, put, remove)


class NoRoom(Spooling):
    """Nor can anything be spooled."""

    async def spool(
        self,
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord] = (),
        remove: Sequence[Address] = (),
    ) -> str:
        raise StoreError("no other disk either")
