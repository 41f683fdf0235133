"""The state in one SQLite file: the default, for one machine or one CI runner with a disk.

Blocking work runs in a worker thread, one piece at a time; only a look at leases does not. A commit is one
transaction and one fsync, shared by all tasks that wait to commit at that moment.
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import anyio
from anyio import to_thread
from anyio.lowlevel import checkpoint

from reconciler.core.clock import Clock
from reconciler.core.errors import Locked, StoreError
from reconciler.core.model import Address, StateRecord
from reconciler.state.batching import Batching, in_thread
from reconciler.state.codec import encode_entry, encode_record
from reconciler.state.contents import Contents
from reconciler.state.sqlite import (
    archive,
    backups,
    checks,
    commits,
    files,
    leases,
    reading,
    restore,
    upkeep,
)
from reconciler.state.sqlite.commits import Request
from reconciler.state.sqlite.database import explained, transaction
from reconciler.state.sqlite.holding import Holding
from reconciler.state.sqlite.state_file import StateFile
from reconciler.state.store import Backups, JournalEntry, Lease, Restored, State

_POLL_S = 0.2  # how often a held lease is asked for again
# Whoever has just locked a scope writes its name a moment later, over that of one that died.
_NAMED_S, _UNNAMED_S = 0.05, 1.0
# How many rows of earlier runs a release packs at most beside as many as it wrote: a moment's work.
_PACKED_BESIDE = 5_000

T = TypeVar("T")


class SqliteStore:
    """A `store.Store` over the file `path`. Close it to free its leases.

    `randomness(n)` gives n bytes, for the lineage and the fingerprint key. `tell` gets a line about
    what failed besides the requested work. `backups`: whether `release` makes one after commits, and packs
    old rows. `environment`: whose state it must be ("": that of none). `read_only`: change no file, and make
    none. `sealed`: it may be a copy of an encrypted state, which is only to be
    copied.
    """

    def __init__(
        self,
        path: Path,
        clock: Clock,
        randomness: Callable[[int], bytes] = os.urandom,
        *,
        tell: Callable[[str], None] = lambda message: None,
        backups: bool = True,
        environment: str = "",
        read_only: bool = False,
        sealed: bool = False,
    ) -> None:
        self._file = StateFile(
            path,
            clock,
            randomness,
            tell,
            environment=environment,
            read_only=read_only,
            sealed=sealed,
        )
        self._holding = Holding(self._file)
        self._clock = clock
        self._tell = tell
        self._makes_backups = backups
        self._committed = 0  # how many changes since the newest backup
        self._loaded: State | None = None
        self._busy = anyio.Lock()
        self._commits = Batching(in_thread(self._flush), turn=self._busy)

    async def load(self, scopes: Collection[str] | None = None) -> State:
        return (await self._in_thread(self._load)).of(scopes)

    async def journal(self, *, since: datetime | None = None) -> Sequence[tuple[str, JournalEntry]]:
        return await self._in_thread(lambda: self._journal(since))

    async def create(self) -> bool:
        return await self._in_thread(self._file.create)

    async def fingerprint_key(self) -> bytes:
        """The key in `<path>.key`. Without a state there may be none: then one that `create` keeps."""
        return await self._in_thread(self._file.fingerprint_key)

    async def lease(self, scopes: Sequence[str], holder: str, *, timeout_s: float = 0) -> Lease:
        wanted = sorted(set(scopes))
        began = self._clock.monotonic()
        while True:
            try:
                return await self._in_thread(lambda: self._holding.take(wanted, holder))
            except Locked as locked:
                unnamed = locked.holder == leases.UNNAMED
                deadline = began + max(timeout_s, _UNNAMED_S if unnamed else _NAMED_S)
                remaining_s = deadline - self._clock.monotonic()
                if remaining_s <= 0:
                    raise
            await self._clock.sleep(min(_POLL_S, remaining_s))

    async def holders(self, scopes: Collection[str]) -> Mapping[str, Locked]:
        return await self._in_thread(lambda: self._holders(scopes))

    async def renew(self, lease: Lease) -> Lease:
        """The lease itself: an operating system's lock has no end."""
        await self.check(lease)
        return lease

    async def check(self, lease: Lease, for_s: float = 0) -> None:
        """Asked in the loop itself: reading a row takes less than a thread's turn.

        Each call that is to be sent asks, and holds a slot: it must not wait for the commits of others.
        """
        if self._file.connection is None:
            await self._in_thread(self._file.writable)
        with explained(self._file.path, self._file.way_out):
            leases.check(self._file.beside(), lease)
        await checkpoint()

    async def release(self, lease: Lease) -> None:
        with anyio.CancelScope(shield=True):
            await self._in_thread(lambda: self._holding.release(lease))
            failure = await self._in_thread(self._backup_after_commits)
            if failure:
                self._tell(failure)

    async def commit(
        self,
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord] = (),
        remove: Sequence[Address] = (),
    ) -> Sequence[StateRecord]:
        """As in `Store`. Cannot be cancelled half-way: it returns, or raises that nothing was stored.

        Raises TypeError or ValueError when the data of an entry or a record is not JSON.
        """
        request = Request(
            lease,
            lease.scope,
            [encode_entry(entry) for entry in entries],
            [(record, encode_record(record)) for record in put],
            remove,
            StoreError(f"nothing was written to the state {self._file.path}"),
        )
        await self._commits.ask(request)
        if isinstance(request.outcome, StoreError):
            raise request.outcome
        return request.outcome

    async def unlock(self, scope: str, *, force: bool, by: str = "") -> str:
        return await self._in_thread(lambda: self._holding.free(scope, force, by))

    async def take_over(self, environment: str, *, by: str) -> bool:
        return await self._in_thread(lambda: upkeep.take_over(self._file, environment, by))

    async def backup(self, target: Path | None = None) -> Path:
        return await self._in_thread(lambda: upkeep.backup(self._file, target))

    async def backups(self) -> Backups:
        return await self._in_thread(lambda: backups.known(self._file.path))

    async def migrate(self) -> bool:
        return await self._in_thread(self._file.migrate)

    async def restore(self, backup: Path | None = None, *, by: str = "") -> Restored:
        return await self._in_thread(lambda: self._restore(backup, by))

    async def export(self) -> Contents:
        return await self._in_thread(lambda: upkeep.export(self._file))

    async def import_(self, contents: Contents) -> None:
        await self._in_thread(lambda: self._import(contents))

    async def retire(self, to: str, contents: Contents) -> None:
        await self._in_thread(lambda: upkeep.retire(self._file, to, contents))

    async def revive(self) -> None:
        await self._in_thread(lambda: upkeep.revive(self._file))

    async def verify(self) -> None:
        """Read everything. Raises StoreError naming the first record or journal row that was changed."""
        await self._in_thread(lambda: upkeep.verify(self._file))

    async def close(self) -> None:
        """Close the file, and free leases that were not released."""
        with anyio.CancelScope(shield=True):
            await self._in_thread(self._close)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        def explaining() -> T:
            with explained(self._file.path, self._file.way_out):
                return work()

        async with self._busy:
            # Shielded: a lease that was taken must reach who asked for it.
            with anyio.CancelScope(shield=True):
                result = await to_thread.run_sync(explaining)
        return result

    # --- in the worker thread ---

    def _load(self) -> State:
        connection = self._file.readable()
        if connection is None:
            traces = tuple(map(str, files.traces_of(self._file.path)))
            return State("", {}, (), frozenset(), traces=traces)
        seen = checks.seen(self._file.path, self._file.lineage)
        with transaction(connection, "DEFERRED"):
            current = checks.read(connection)
            checks.verify_seen(current, seen)
            if self._loaded is None or self._loaded.version != current.heads:
                self._loaded = reading.state(connection, current)
        self._file.verify_key(current)
        return self._loaded

    def _journal(self, since: datetime | None) -> Sequence[tuple[str, JournalEntry]]:
        connection = self._file.readable()
        if connection is None:
            return ()
        with transaction(connection, "DEFERRED"):
            return reading.entries(connection, checks.read(connection), since)

    def _holders(self, scopes: Collection[str]) -> Mapping[str, Locked]:
        connection = self._file.readable()
        if connection is None:
            return {}
        checks.read(connection)
        return leases.holders(connection, files.lock_path(self._file.path), scopes, self._clock.now())

    def _flush(self, batch: Sequence[Request]) -> None:
        """Store all requests of `batch` in one transaction, or else each in its own."""
        file = self._file
        try:
            with explained(file.path, file.way_out):
                outcomes = commits.store(file.writable(), file.path, batch)
        except StoreError as error:
            if len(batch) == 1:
                batch[0].outcome = error
                return
            # One that fails takes the transaction with it, but must not fail its neighbours.
            for request in batch:
                self._flush([request])
            return
        self._committed += sum(1 + len(request.entries) for request in batch)
        for request, outcome in zip(batch, outcomes, strict=True):
            request.outcome = outcome

    def _backup_after_commits(self) -> str:
        """What prevented a backup that is due, or ""."""
        if not self._makes_backups or not self._committed:
            return ""
        file = self._file
        try:
            with explained(file.path, file.way_out):
                archive.extend(file.writable(), file.path, self._committed + _PACKED_BESIDE)
                backups.make(file.writable(), file.path, self._clock.now())
                backups.prune(file.path)
        except StoreError as failure:
            return f"no backup of the state was made: {failure.message}"
        self._committed = 0
        return ""

    def _restore(self, backup: Path | None, by: str) -> Restored:
        self._close()
        file = self._file
        return restore.restore(file.path, backup, self._clock.now(), by, file.randomness)

    def _import(self, contents: Contents) -> None:
        self._close()
        upkeep.import_(self._file, contents)

    def _close(self) -> None:
        self._loaded = None
        self._holding.close()
        self._file.close()
