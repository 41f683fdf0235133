"""The state in one SQLite file: the default, for one machine or one CI runner with a disk.

Blocking work runs in a worker thread, one piece at a time. A commit is one transaction and
one fsync, shared by all tasks that wait to commit at that moment.
"""

import os
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import anyio
from anyio import to_thread

from reconciler.clock import Clock
from reconciler.errors import Locked, StoreError
from reconciler.model import Address, StateRecord
from reconciler.state import files, journal, leases, locks, records, schema
from reconciler.state.codec import EntryColumns, encode_entry, encode_record
from reconciler.state.database import Damaged, check_pages, connect, explained, transaction, use_wal
from reconciler.state.store import JournalEntry, Lease, State

_POLL_S = 0.2  # how often a held lease is asked for again

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class _Request:
    """One call of `commit`, on its way to the worker thread and back."""

    lease: Lease
    entries: Sequence[EntryColumns]
    put: Sequence[tuple[StateRecord, str]]
    remove: Sequence[Address]
    outcome: Sequence[StateRecord] | StoreError


class SqliteStore:
    """A `store.Store` over the file `path`, which the first lease creates. Close it to free its leases.

    `randomness(n)` gives n bytes, for the lineage and the fingerprint key.
    """

    def __init__(self, path: Path, clock: Clock, randomness: Callable[[int], bytes] = os.urandom) -> None:
        self._path = path
        self._clock = clock
        self._randomness = randomness
        self._connection: sqlite3.Connection | None = None
        self._lineage = ""
        self._inode = (0, 0)
        self._new_key: bytes | None = None
        self._held: dict[str, tuple[int, int]] = {}  # scope → epoch, byte in the lock file
        self._checked: tuple[Lease, int] | None = None  # found current at this version of the file
        self._waiting: list[_Request] = []
        self._busy = anyio.Lock()

    async def load(self) -> State:
        return await self._in_thread(self._load)

    async def fingerprint_key(self) -> bytes:
        """The key in `<path>.key`. Before the first lease there may be none: then a new one, kept by it."""
        return await self._in_thread(self._fingerprint_key)

    async def lease(self, scopes: Sequence[str], holder: str, *, timeout_s: float = 0) -> Lease:
        wanted = sorted(set(scopes))
        deadline = self._clock.monotonic() + timeout_s
        while True:
            try:
                return await self._in_thread(lambda: self._take(wanted, holder))
            except Locked:
                remaining_s = deadline - self._clock.monotonic()
                if remaining_s <= 0:
                    raise
            await self._clock.sleep(min(_POLL_S, remaining_s))

    async def check(self, lease: Lease) -> None:
        await self._in_thread(lambda: self._check(self._writable(), lease))

    async def release(self, lease: Lease) -> None:
        with anyio.CancelScope(shield=True):
            await self._in_thread(lambda: self._release(lease))

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
        request = _Request(
            lease,
            [encode_entry(entry) for entry in entries],
            [(record, encode_record(record)) for record in put],
            remove,
            StoreError(f"nothing was written to the state {self._path}"),
        )
        with anyio.CancelScope(shield=True):
            self._waiting.append(request)
            async with self._busy:
                # Whoever comes first writes for all who wait; the others find themselves served.
                if request in self._waiting:
                    batch, self._waiting = self._waiting, []
                    await to_thread.run_sync(self._flush, batch)
        if isinstance(request.outcome, StoreError):
            raise request.outcome
        return request.outcome

    async def verify(self) -> None:
        """Read everything. Raises StoreError naming the first record or journal row that was changed."""
        await self._in_thread(self._verify)

    async def close(self) -> None:
        """Close the file, and free leases that were not released: the next holder is told of it."""
        with anyio.CancelScope(shield=True):
            await self._in_thread(self._close)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        def explaining() -> T:
            with explained(self._path):
                return work()

        async with self._busy:
            # Shielded: a lease that was taken must reach who asked for it.
            with anyio.CancelScope(shield=True):
                result = await to_thread.run_sync(explaining)
        return result

    # --- in the worker thread ---

    def _load(self) -> State:
        connection = self._readable()
        if connection is None:
            return State("", {}, (), frozenset())
        with transaction(connection, "DEFERRED"):
            try:
                check_pages(connection, "records", "open_intents", "plans_run")
                journal.verify_newest(connection, self._lineage)
                return State(
                    self._lineage,
                    records.load(connection),
                    journal.open_intents(connection, self._lineage),
                    journal.plans_run(connection),
                )
            except (KeyError, TypeError, ValueError) as error:
                raise Damaged("a row holds what was never written there") from error

    def _verify(self) -> None:
        connection = self._readable()
        if connection is None:
            return
        with transaction(connection, "DEFERRED"):
            for (problem,) in connection.execute("PRAGMA integrity_check(1)"):
                if problem != "ok":
                    raise Damaged(str(problem))
            try:
                records.load(connection)
                journal.verify(connection, self._lineage)
            except (KeyError, TypeError, ValueError) as error:
                raise Damaged("a row holds what was never written there") from error

    def _fingerprint_key(self) -> bytes:
        stored = files.read_key(files.key_path(self._path))
        if stored is not None:
            return stored
        self._new_key = self._new_key or self._randomness(files.KEY_BYTES)
        return self._new_key

    def _check(self, connection: sqlite3.Connection, lease: Lease) -> None:
        """As `leases.check`, but once for all calls between which no other process has written.

        A lease of a thousand scopes is checked thousands of times, and reads a thousand rows each time.
        """
        (version,) = connection.execute("PRAGMA data_version").fetchone()  # moved by others' commits only
        if self._checked != (lease, version):
            leases.check(connection, lease)
            self._checked = (lease, version)

    def _take(self, scopes: Sequence[str], holder: str) -> Lease:
        self._checked = None
        connection = self._created()
        lease, numbers = leases.take(
            connection, files.lock_path(self._path), scopes, holder, self._clock.now()
        )
        self._held |= {scope: (lease.epochs[scope], number) for scope, number in numbers.items()}
        return lease

    def _release(self, lease: Lease) -> None:
        self._checked = None
        try:
            leases.mark_released(self._writable(), lease)
        finally:
            self._unlock(scope for scope, epoch in lease.epochs.items() if self._holds(scope, epoch))

    def _close(self) -> None:
        self._checked = None
        self._unlock(self._held)
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _flush(self, batch: Sequence[_Request]) -> None:
        """Store all requests of `batch` in one transaction, or else each in its own."""
        try:
            with explained(self._path):
                connection = self._writable()
                with transaction(connection):
                    outcomes = [self._store(connection, request) for request in batch]
        except StoreError as error:
            if len(batch) == 1:
                batch[0].outcome = error
                return
            # One that fails takes the transaction with it, but must not fail its neighbours.
            for request in batch:
                self._flush([request])
            return
        for request, outcome in zip(batch, outcomes, strict=True):
            request.outcome = outcome

    def _store(self, connection: sqlite3.Connection, request: _Request) -> Sequence[StateRecord]:
        self._check(connection, request.lease)
        for record, _ in request.put:
            if record.scope not in request.lease.epochs:
                raise StoreError(f"the lease does not cover `{record.scope}`, the scope of {record.address}")
        journal.append(connection, self._lineage, request.entries)
        for address in request.remove:
            records.remove(connection, address)
        return records.put(connection, request.put)

    def _holds(self, scope: str, epoch: int) -> bool:
        return scope in self._held and self._held[scope][0] == epoch

    def _unlock(self, scopes: Iterable[str]) -> None:
        for scope in list(scopes):
            _, number = self._held.pop(scope)
            locks.unlock(files.lock_path(self._path), number)

    def _created(self) -> sqlite3.Connection:
        """The connection, after creating whatever is missing."""
        if not files.state_exists(self._path):
            files.create_state(self._path, str(uuid.UUID(bytes=self._randomness(16), version=4)))
        key_path = files.key_path(self._path)
        if files.read_key(key_path) is None:
            files.create_key(key_path, self._fingerprint_key())
        return self._writable()

    def _writable(self) -> sqlite3.Connection:
        """The connection, if its file is still the state: SQLite would go on writing to a deleted one."""
        connection = self._readable()
        if connection is None:
            raise StoreError(f"the state {self._path} does not exist", help="run again to begin a new one")
        if _inode(self._path) != self._inode:
            raise StoreError(
                f"the state {self._path} was replaced by another file during this run", help="run again"
            )
        return connection

    def _readable(self) -> sqlite3.Connection | None:
        """The connection; None when there is no state yet. Creates nothing."""
        if self._connection is None and files.state_exists(self._path):
            self._open()
        return self._connection

    def _open(self) -> None:
        connection = connect(self._path)
        try:
            version = schema.version_of(connection)
            if version is None:
                raise StoreError(
                    f"{self._path} is not a state of this program",
                    help="name another file with `state: sqlite:PATH`, or put a backup in its place",
                )
            if version > schema.VERSION:
                raise StoreError(
                    f"the state {self._path} was written by a newer reconciler"
                    f" (its version is {version}, this one knows {schema.VERSION})",
                    help="use the newer reconciler",
                )
            if version < schema.VERSION:
                schema.migrate(connection)
            use_wal(connection)
            self._lineage = schema.lineage_of(connection)
            self._inode = _inode(self._path)
        except BaseException:
            connection.close()
            raise
        self._connection = connection


def _inode(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino
