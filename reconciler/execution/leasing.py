"""Holds leases while a block runs."""

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

import anyio

from reconciler.core.errors import Locked, ReconcilerError, StoreError
from reconciler.core.reporter import TELL_EVERY_S, Reporter
from reconciler.state.renewing import renewed
from reconciler.state.store import Lease, Store

_SILENT_S = 2.0  # how long a store may take for a lease before a person sees the reason


@asynccontextmanager
async def leased(
    store: Store, scopes: Collection[str], holder: str, *, timeout_s: float, reporter: Reporter | None = None
) -> AsyncIterator[Lease]:
    """Hold the leases of all `scopes`. Raises Locked after `timeout_s` seconds, and then holds none.

    A lease that ends by itself is renewed while the block runs. If a lease cannot be released, the work of
    the block is still valid, and the lease ends by itself.
    """
    reporter = reporter or Reporter()
    lease = await _take(store, sorted(scopes), holder, timeout_s, reporter)
    try:
        async with renewed(store, lease, partial(reporter.failed, "the lease could not be renewed")):
            yield lease
    finally:
        with anyio.CancelScope(shield=True):
            try:
                await store.release(lease)
            except StoreError as failure:
                reporter.failed("the lease could not be released", failure.message)


async def _take(store: Store, scopes: Sequence[str], holder: str, left_s: float, reporter: Reporter) -> Lease:
    """Take the lease in attempts of `TELL_EVERY_S` seconds; between them the reporter gets the holder."""
    slice_s = 0.0
    reported: Locked | None = None

    def tell(held: Locked, rest_s: float) -> None:
        nonlocal reported
        if reported is not None and reported.scope != held.scope:
            reporter.waiting_for_lock(reported, 0)
        reported = held
        reporter.waiting_for_lock(held, rest_s)

    try:
        while True:
            try:
                return await _asked(store, scopes, holder, slice_s, tell)
            except Locked as held:
                left_s -= slice_s
                if left_s <= 0:
                    raise
                tell(held, left_s)
                slice_s = min(TELL_EVERY_S, left_s)
    finally:
        if reported is not None:
            reporter.waiting_for_lock(reported, 0)


async def _asked(
    store: Store, scopes: Sequence[str], holder: str, timeout_s: float, tell: Callable[[Locked, float], None]
) -> Lease:
    """As `Store.lease`. `tell` gets a holder that may be dead, while the store waits to be sure."""
    found: Lease | ReconcilerError

    async def tell_of_the_dead() -> None:
        await anyio.sleep(_SILENT_S)
        with suppress(StoreError):
            for held in (await store.holders(scopes)).values():
                if held.rest_s is not None:
                    tell(held, held.rest_s)
                    break

    async with anyio.create_task_group() as group:
        group.start_soon(tell_of_the_dead)
        try:
            found = await store.lease(scopes, holder, timeout_s=timeout_s)
        except ReconcilerError as failure:
            found = failure
        group.cancel_scope.cancel()
    if isinstance(found, ReconcilerError):
        raise found
    return found
