"""The state in a PostgreSQL database, for teams and for runners that are thrown away.

A commit is one transaction, shared by all tasks that wait to commit at that moment. Each scope has a head row
of its own, so that applies of different apps do not wait for each other.
"""

import os
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from psycopg import errors

from reconciler.core.advice import command
from reconciler.core.clock import Clock
from reconciler.core.errors import Locked, StateMoved, StoreError
from reconciler.core.model import Address, StateRecord
from reconciler.core.state_url import LEASE_S
from reconciler.state import history
from reconciler.state.batching import Batching
from reconciler.state.codec import encode_entry, encode_record
from reconciler.state.contents import Contents, verify
from reconciler.state.postgres import commits, leases, moving, packing, probing, reading, schema, upkeep
from reconciler.state.postgres.commits import Request, Sent
from reconciler.state.postgres.leases import Check
from reconciler.state.postgres.line import SERVER_TIME, Line
from reconciler.state.postgres.moving import Sending
from reconciler.state.postgres.place import Place
from reconciler.state.postgres.problems import explained
from reconciler.state.postgres.schema import Identity, Known
from reconciler.state.store import JournalEntry, Lease, State, no_state

_KEY_BYTES = 32
_POLL_S = 0.2  # how often a held lease is asked for again
# How many rows of earlier runs a release packs at most beside as many as it wrote: a moment's work.
_PACKED_BESIDE = 5_000

T = TypeVar("T")


class PostgresStore:
    """A `store.Store` in the database that `url` names. Connects when it is first asked for something.

    `randomness(n)` gives n bytes, for the lineage and the fingerprint key. `tell` gets a line about a
    migration. `environment`: whose state it is ("": that of none). `read_only`: change nothing. `lease_s`:
    how long a lease lasts unless it is renewed, by the server's time, for which `now` gives the SQL.

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
    ) -> None:
        self._place = Place.of(url)
        self._line = Line(self._place, clock, now)
        self._clock = clock
        self._randomness = randomness
        self._tell = tell
        self._environment = environment
        self._read_only = read_only
        self._lease_s = lease_s
        self._new_key = b""
        self._identity: Identity | None = None
        self._unpacked = 0  # how many rows were written since the last packing
        self._loaded: tuple[frozenset[str] | None, State] | None = None  # which scopes (None: all)
        self._commits = Batching(self._store)
        self._checks = Batching(self._check)

    async def load(self, scopes: Collection[str] | None = None) -> State:
        return (await self._run(lambda: self._load(scopes), shield=False)).of(scopes)

    async def journal(self, *, since: datetime | None = None) -> Sequence[tuple[str, JournalEntry]]:
        async def ask() -> Sequence[tuple[str, JournalEntry]]:
            identity = (await self._known()).identity
            return await reading.entries(self._line, identity) if identity is not None else ()

        return history.of_runs_since(await self._run(ask, shield=False), since)

    async def create(self) -> bool:
        lineage = str(uuid.UUID(bytes=self._randomness(16), version=4))
        self._new_key = self._new_key or self._randomness(_KEY_BYTES)

        async def make() -> bool:
            if (known := await self._known()).identity is None:
                if known.version < schema.VERSION:
                    await schema.migrate(self._line)
                await schema.insert(self._line, self._environment, lineage, self._new_key)
            # Also where the answer was lost: what stands is ours, or another's who was faster.
            return (await self._state()).lineage == lineage

        return await self._run(make)

    async def fingerprint_key(self) -> bytes:
        """The key that is stored with the state. Without a state: one that `create` keeps."""
        self._new_key = self._new_key or self._randomness(_KEY_BYTES)
        identity = (await self._run(self._known, shield=False)).identity
        return identity.key if identity is not None else self._new_key

    async def lease(self, scopes: Sequence[str], holder: str, *, timeout_s: float = 0) -> Lease:
        wanted, token = sorted(set(scopes)), leases.new_token()
        deadline_s = self._clock.monotonic() + timeout_s

        async def take() -> Lease:
            return await leases.take(self._line, await self._state(), wanted, holder, self._lease_s, token)

        while True:
            try:
                return await self._run(take)
            except Locked:
                remaining_s = deadline_s - self._clock.monotonic()
                if remaining_s <= 0:
                    raise
            await self._clock.sleep(min(_POLL_S, remaining_s))

    async def holders(self, scopes: Collection[str]) -> Mapping[str, Locked]:
        async def ask() -> Mapping[str, Locked]:
            known = (await self._known()).identity
            return await leases.holders(self._line, known.id, scopes) if known is not None else {}

        return await self._run(ask, shield=False)

    async def renew(self, lease: Lease) -> Lease:
        async def renew() -> Lease:
            return await leases.renew(self._line, await self._state(), lease, self._lease_s)

        return await self._run(renew)

    @property
    def lease_s(self) -> float:
        return self._lease_s

    def beat(self, lease: Lease) -> Lease:
        assert self._identity is not None, "a lease was taken"
        return leases.beat(self._place, self._line.now(), self._identity, lease, self._lease_s)

    async def check(self, lease: Lease, for_s: float = 0) -> None:
        """As in `Store`. A lease that would end too soon is renewed, as far as that may help."""
        request = Check(lease, for_s)
        await self._checks.ask(request)
        if request.failure is not None:
            raise request.failure

    async def release(self, lease: Lease) -> None:
        async def release() -> None:
            await leases.release(self._line, await self._state(), lease)

        await self._run(release)
        await self._pack()

    async def commit(
        self,
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord] = (),
        remove: Sequence[Address] = (),
    ) -> Sequence[StateRecord]:
        """As in `Store`. Cannot be cancelled half-way. If the answer to a commit is lost, this checks
        whether it landed, and repeats it if not. A StoreError may mean that nobody can tell.

        Raises TypeError or ValueError when the data of an entry or a record is not JSON.
        """
        request = Request(
            lease,
            lease.scope,
            [encode_entry(entry) for entry in entries],
            [(record, encode_record(record)) for record in put],
            remove,
        )
        await self._commits.ask(request)
        if isinstance(request.outcome, StoreError):
            raise request.outcome
        assert request.outcome is not None
        return request.outcome

    async def verify(self) -> None:
        await self._run(lambda: upkeep.verify(self._line, self._environment), shield=False)

    async def unlock(self, scope: str, *, force: bool, by: str = "") -> str:
        sent = Sent()

        async def free() -> str:
            at = self._clock.now()
            return await upkeep.free(self._line, await self._state(), scope, force, by, at, sent)

        return await self._run(free)

    async def take_over(self, environment: str, *, by: str) -> bool:
        sent, base = Sent(), self._environment

        async def take_over() -> bool:
            at = self._clock.now()
            return await upkeep.take_over(self._line, base, environment, by, at, sent)

        taken = await self._run(take_over)
        self._environment, self._identity = environment, None
        return taken

    async def export(self) -> Contents:
        return await self._run(lambda: moving.export(self._line, self._environment), shield=False)

    async def import_(self, contents: Contents) -> None:
        verify(contents)
        sending = Sending()
        await self._run(lambda: moving.import_(self._line, self._environment, contents, sending))

    async def retire(self, to: str, contents: Contents) -> None:
        await self._run(lambda: moving.retire(self._line, self._environment, to, contents))

    async def revive(self) -> None:
        await self._run(lambda: moving.revive(self._line, self._environment))

    async def probe(self) -> bool:
        """Prove that the database keeps its word. Raises StoreError that says what it did instead."""
        version = (await self._run(self._known_or_moved, shield=False)).version
        lines = [Line(self._place, self._clock, self._line.now) for _ in range(probing.WRITERS)]
        try:
            await probing.probe(lines, lambda: self._randomness(8).hex(), with_schema=version > 0)
        finally:
            for line in lines:
                await line.close()
        return True

    async def close(self) -> None:
        self._loaded = None
        await self._line.close()

    # --- inside of the line ---

    async def _run(self, work: Callable[[], Awaitable[T]], *, shield: bool = True) -> T:
        with explained(self._place):
            return await self._line.run(work, shield=shield)

    async def _known(self) -> Known:
        """As `_known_or_moved`. Raises StateMoved where the state is elsewhere."""
        known = await self._known_or_moved()
        if known.moved_to:
            raise StateMoved(self._place.shown, known.moved_to)
        return known

    async def _known_or_moved(self) -> Known:
        """What is there, in a schema of the newest version."""
        known = await schema.known(self._line, self._environment)
        if 0 < known.version < schema.VERSION:
            await self._migrate(known.version)
            known = await schema.known(self._line, self._environment)
        return known

    async def _migrate(self, version: int) -> None:
        if self._read_only:
            apply = command("apply")
            raise StoreError(
                f"the state {self._place.shown} was written by an older reconciler"
                f" (its version is {version}, this one's {schema.VERSION})",
                help=f"the next `{apply}` by a role that owns the schema migrates it",
                advice=(apply,),
            )
        if await schema.migrate(self._line) < schema.VERSION:
            self._tell(
                f"the state {self._place.shown} was migrated from version {version} to {schema.VERSION}"
            )

    async def _state(self) -> Identity:
        """Of the state that this handle is about. Raises StoreError where there is none."""
        if self._identity is None:
            self._identity = (await self._known()).identity
        if self._identity is None:
            raise no_state(self._place.shown)
        return self._identity

    async def _load(self, scopes: Collection[str] | None) -> State:
        known = await self._known()
        if known.identity is None:
            return State("", {}, (), frozenset())
        if self._loaded is not None:
            read, state = self._loaded
            fits = state.lineage == known.identity.lineage and state.version == known.heads
            if fits and (read is None or (scopes is not None and read.issuperset(scopes))):
                return state
        state = await reading.read(self._line, known.identity, scopes)
        self._loaded = (None if scopes is None else frozenset(scopes)), state
        return state

    async def _check(self, batch: Sequence[Check]) -> None:
        async def check() -> None:
            await leases.check(self._line, await self._state(), batch, self._lease_s)

        try:
            await self._run(check)
        except StoreError as failure:
            for each in batch:
                each.failure = failure

    async def _pack(self) -> None:
        """Old rows, where this handle has written new ones. The scopes are free again."""
        written, self._unpacked = self._unpacked, 0

        async def pack() -> None:
            await packing.extend(self._line, await self._state(), written + _PACKED_BESIDE)

        if written:
            try:
                await self._run(pack)
            except StoreError as failure:
                self._tell(f"old rows of the journal were not packed: {failure.message}")

    async def _store(self, batch: Sequence[Request]) -> None:
        """Store all requests of `batch` in one transaction."""
        sent = Sent()

        async def store() -> None:
            await commits.commit(self._line, await self._state(), batch, sent)

        try:
            try:
                await self._run(store)
            except StoreError as failure:
                if not isinstance(failure.__cause__, errors.IntegrityError):
                    raise
                # Another scope's commit put the same address in between: now it is seen there.
                await self._run(store)
        except StoreError as failure:
            for request in batch:
                request.outcome = failure
        else:
            self._unpacked += sum(len(request.entries) for request in batch)
