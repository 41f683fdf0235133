"""Holding leases for as long as a block runs."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import anyio

from reconciler.core.errors import StoreError
from reconciler.core.reporter import Reporter
from reconciler.state.store import Lease, Store


@asynccontextmanager
async def leased(
    store: Store, scopes: Collection[str], holder: str, *, timeout_s: float, reporter: Reporter | None = None
) -> AsyncIterator[Lease]:
    """Hold the leases of all `scopes`. Raises Locked, and then holds none.

    If a lease cannot be released, the work of the block is still valid.

    A lease that is left behind frees itself with its process.
    """
    lease = await store.lease(sorted(scopes), holder, timeout_s=timeout_s)
    try:
        yield lease
    finally:
        with anyio.CancelScope(shield=True):
            try:
                await store.release(lease)
            except StoreError as failure:
                (reporter or Reporter()).note(f"the lease could not be released: {failure.message}")
