"""The state in a PostgreSQL database: the one store, in a table."""

import os
from collections.abc import Callable

from msgspec.structs import replace

from reconciler.core.clock import Clock
from reconciler.core.errors import StoreError
from reconciler.core.state_url import LEASE_S
from reconciler.state.log import root, writes
from reconciler.state.log.bucket import Bucket, Layout, NoAnswer, unsealed
from reconciler.state.log.root import Root
from reconciler.state.log.store import LogStore
from reconciler.state.places.postgres.bucket import ServerTime, TableBucket
from reconciler.state.places.postgres.connections import SERVER_TIME, Connections
from reconciler.state.places.postgres.url import DatabaseUrl
from reconciler.state.store import WHOLE_STATE, Event, JournalEntry, no_state

_TIMES = 3  # how often a write is sent at most whose answer is lost


class PostgresStore(LogStore):
    """A `store.Store` in the database that `url` names. Connects when it is first asked for something.

    `tell` gets a line about a migration. `environment`, `read_only`: as in `LogStore`. `lease_s`: how long a
    lease lasts unless it is renewed, by the server's time, for which `now` gives the SQL. `seal`: gives the
    bucket that encrypts what is in the table.

    Raises StoreError for a URL that is not one.
    """

    def __init__(
        self,
        url: str,
        clock: Clock,
        randomness: Callable[[int], bytes] = os.urandom,
        *,
        tell: Callable[[str], None] = lambda message: None,
        environment: str = "",
        read_only: bool = False,
        lease_s: float = LEASE_S,
        now: Callable[[], str] = lambda: SERVER_TIME,
        seal: Callable[[Bucket], Bucket] = unsealed,
    ) -> None:
        self.connections = Connections(DatabaseUrl.of(url), clock, now)
        self._table = TableBucket(self.connections, tell)
        super().__init__(
            seal(self._table),
            clock,
            randomness,
            exclusion=ServerTime(self._table, lease_s),
            environment=environment,
            read_only=read_only,
        )

    async def take_over(self, environment: str, *, by: str) -> bool:
        """As in `LogStore`. Takes the leases of all scopes first."""
        base = await self._in_thread(lambda: self._to_take_over(environment))
        if base is None:
            return False
        lease = await self.lease(sorted({*base.scopes, WHOLE_STATE}), by)
        try:
            data = {"environment": environment, "by": by}
            entry = JournalEntry("", Event.DECIDED, self._clock.now(), data=data)
            await self.commit(lease.of(WHOLE_STATE), [entry])
            await self._in_thread(lambda: self._rename(environment))
        finally:
            await self.release(lease)
        self._layout, self._opened = Layout(environment), None
        return True

    async def probe(self) -> bool:
        """As in `LogStore`: in the table of the states, or in a schema of its own while there is none."""
        if await self._in_thread(self._table.has_table):
            return await super().probe()
        apart = self._bucket = self._table.proving(f"reconcile_probe_{self._nonce()}")
        try:
            return await super().probe()
        finally:
            await self._in_thread(apart.drop)
            self._bucket = self.bucket

    # --- in a worker thread ---

    def _to_take_over(self, environment: str) -> Root | None:
        """The state of no environment; None where `environment` has its own already. Raises StoreError."""
        base = root.read(self._bucket, self._layout)
        own = root.read(self._bucket, Layout(environment))
        for found in (own, base):
            if found is not None:
                root.require_here(self._bucket, found[0])
        if own is None:
            if base is None:
                raise no_state(self._bucket.place)
            return base[0]
        if base is not None:
            raise StoreError(
                f"the state {self._bucket.place} has one of `{environment}` already",
                help=f"pass --env {environment} to use that one",
            )
        return None

    def _rename(self, environment: str) -> None:
        """Give the state of no environment to `environment`, as one write. Raises StoreError."""
        before, after = self._require_state()[0].layout, Layout(environment)
        known = root.require(self._bucket, self._layout)
        new = replace(known[0].next(self._nonce()), environment=environment).encode()
        stored, cause = self._bucket.as_stored(after.root, new), ""
        for _ in range(_TIMES):
            try:
                if self._table.rename(before, after, stored, known[1]):
                    return
            except NoAnswer as unanswered:
                cause = unanswered.cause
            found = self._bucket.get(after.root)
            if found is not None and found.body == new:
                return
        raise writes.unsettled(self._bucket, cause or "it has changed meanwhile")
