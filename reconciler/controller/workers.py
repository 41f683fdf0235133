"""Controllers that share the work on one state: each has a place, and a lease on it while it lives.

There is no queue, and nothing that could be lost: a scope belongs to the living place that comes first in an
order of the scope's own. So all find the same without a word, and only the scopes of one that came or died
change hands. Where two look at the same scope for a moment, the scope's own lease and the journal keep their
applies apart.
"""

import hashlib
from collections.abc import Collection
from contextlib import AsyncExitStack, suppress
from datetime import datetime
from typing import Any

import anyio

from reconciler.core.errors import LeaseLost, Locked, StoreError
from reconciler.core.reporter import Reporter
from reconciler.execution.leasing import leased
from reconciler.project.attribution import holder
from reconciler.project.history import Found, find_history
from reconciler.project.settings import ProjectSettings
from reconciler.project.store import Opening, require_own_place, store_of
from reconciler.state.runs import History
from reconciler.state.spooling import Spooling
from reconciler.state.store import Lease, State

_NO_RUNS = Found(History())
_PLACES = tuple(f"controller/worker-{number}" for number in range(1, 33))


class OpenState:
    """The state, with its store left open: each look for orders then costs next to nothing.

    `shares`: the work is shared with other controllers of this state.
    """

    def __init__(self, reporter: Reporter, *, shares: bool) -> None:
        self._reporter, self._shares = reporter, shares
        self._store: Spooling | None = None
        self._where: Any = None  # the state whose store is open
        self._lease: Lease | None = None  # of our place
        self._place_kept = AsyncExitStack()

    async def load(self, config: ProjectSettings, url: str | None) -> State:
        """The state at `url`; None: where the settings have it. Raises StoreError."""
        if self._store is None or self._where != (config.settings.state, url):
            await self.close()
            require_own_place(config, url or config.settings.state_url)
            self._store, self._where = store_of(config, Opening(url)), (config.settings.state, url)
        try:
            return await self._store.load()
        except StoreError:
            await self.close()
            raise

    async def ours(self, state: State, scopes: Collection[str]) -> Collection[str]:
        """Of all `scopes`, those that this controller looks after. Raises StoreError.

        All of them where it shares with nobody, and before there is a state.
        """
        if not self._shares or self._store is None or not state.lineage:
            return scopes
        try:
            mine = await self._place(self._store)
            living = {*await self._store.holders(_PLACES), mine}
        except StoreError:
            await self.close()
            raise
        return {scope for scope in scopes if max(living, key=lambda place: _rank(scope, place)) == mine}

    async def _place(self, store: Spooling) -> str:
        """Our place: the one we have, else a free one."""
        if self._lease is not None:
            with suppress(LeaseLost):
                await store.check(self._lease)
                return self._lease.scope
            await self._place_kept.aclose()
        taken = await store.holders(_PLACES)
        for place in (place for place in _PLACES if place not in taken):
            try:
                held = leased(store, [place], holder(), timeout_s=0, reporter=self._reporter)
                self._lease = await self._place_kept.enter_async_context(held)
            except Locked:
                continue  # another one came first
            return place
        raise StoreError(f"{len(_PLACES)} workers share this state already, and there may not be more")

    async def runs(self, since: datetime) -> Found:
        """Those that did something since then. Raises StoreError."""
        return await find_history(self._store, None, since) if self._store is not None else _NO_RUNS

    async def close(self) -> None:
        """Give up our place, and let go of the store."""
        store, self._store, self._lease = self._store, None, None
        with anyio.CancelScope(shield=True):
            await self._place_kept.aclose()
            if store is not None:
                await store.close()


def _rank(scope: str, place: str) -> bytes:
    return hashlib.sha256(f"{scope}\0{place}".encode()).digest()
