"""What every wrapper around a store is made from."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from reconciler.core.errors import Locked
from reconciler.core.model import Address, StateRecord
from reconciler.state.store import JournalEntry, Lease, State, Store


class Passing:
    """A `Store` that passes every call on to `inner`: subclasses say what is different."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    async def load(self, scopes: Collection[str] | None = None) -> State:
        return await self.inner.load(scopes)

    async def journal(self, *, since: datetime | None = None) -> Sequence[tuple[str, JournalEntry]]:
        return await self.inner.journal(since=since)

    async def create(self) -> bool:
        return await self.inner.create()

    async def fingerprint_key(self) -> bytes:
        return await self.inner.fingerprint_key()

    async def lease(self, scopes: Sequence[str], holder: str, *, timeout_s: float = 0) -> Lease:
        return await self.inner.lease(scopes, holder, timeout_s=timeout_s)

    async def holders(self, scopes: Collection[str]) -> Mapping[str, Locked]:
        return await self.inner.holders(scopes)

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
