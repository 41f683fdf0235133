"""The state in one SQLite file: the default, for one machine or one CI runner with a disk.

Blocking work runs in a worker thread, one piece at a time. A commit is one transaction and
one fsync, shared by all tasks that wait to commit at that moment.
"""

import os
import sqlite3
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import anyio
from anyio import to_thread

from reconciler.core.advice import Command
from reconciler.core.clock import Clock
from reconciler.core.errors import Locked, StoreError
from reconciler.core.model import Address, StateRecord
from reconciler.state import contents as contents_module
from reconciler.state import environments, rules
from reconciler.state.codec import EntryColumns, encode_entry, encode_record
from reconciler.state.contents import Contents
from reconciler.state.durable import make_private
from reconciler.state.sqlite import (
    backups,
    checks,
    files,
    heads,
    journal,
    leases,
    locks,
    moving,
    records,
    restore,
    schema,
)
from reconciler.state.sqlite.checks import Checks, Place
from reconciler.state.sqlite.database import (
    Damaged,
    Moved,
    check_pages,
    connect,
    explained,
    transaction,
    use_wal,
)
from reconciler.state.store import (
    WHOLE_STATE,
    Backups,
    Event,
    JournalEntry,
    Lease,
    Restored,
    State,
    no_state,
    not_covered,
)

_POLL_S = 0.2  # how often a held lease is asked for again
# Whoever has just locked a scope writes its name a moment later, over that of one that died.
_NAMED_S, _UNNAMED_S = 0.05, 1.0

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class _Request:
    """One call of `commit`, on its way to the worker thread and back."""

    lease: Lease
    scope: str
    entries: Sequence[EntryColumns]
    put: Sequence[tuple[StateRecord, str]]
    remove: Sequence[Address]
    outcome: Sequence[StateRecord] | StoreError


class SqliteStore:
    """A `store.Store` over the file `path`. Close it to free its leases.

    `randomness(n)` gives n bytes, for the lineage and the fingerprint key. `tell` hears of what went
    wrong beside the work that was asked for. `backups`: whether `release` makes one after commits.
    `environment`: whose state it must be ("": that of none). `read_only`: change no file, and make none.
    `marks`: see `checks.Place`. `sealed`: it may be a copy of an encrypted state, which is only to be copied.
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
        marks: Path | None = None,
        sealed: bool = False,
    ) -> None:
        self._path = path
        self._sealed = sealed
        self._place = Place(path, marks)
        self._clock = clock
        self._randomness = randomness
        self._tell = tell
        self._makes_backups = backups
        self._environment = environment
        self._read_only = read_only
        self._heir = ""  # the environment that is to take over a state of none
        self._committed = False  # since the newest backup
        self._connection: sqlite3.Connection | None = None
        self._lineage = ""
        self._inode = (0, 0)
        self._new_key: bytes | None = None
        self._held: dict[str, tuple[int, int]] = {}  # scope → epoch, byte in the lock file
        self._loaded: State | None = None
        self._checked: tuple[Lease, int] | None = None  # found current at this version of the file
        self._waiting: list[_Request] = []
        self._busy = anyio.Lock()

    async def load(self, scopes: Collection[str] | None = None) -> State:
        return (await self._in_thread(self._load)).of(scopes)

    async def knows(self, kind: str) -> bool:
        return await self._in_thread(lambda: self._knows(kind))

    async def journal(self, *, since: datetime | None = None) -> Sequence[tuple[str, JournalEntry]]:
        return await self._in_thread(lambda: self._journal(since))

    async def create(self) -> bool:
        return await self._in_thread(self._create)

    async def fingerprint_key(self) -> bytes:
        """The key in `<path>.key`. Without a state there may be none: then one that `create` keeps."""
        return await self._in_thread(self._fingerprint_key)

    async def lease(self, scopes: Sequence[str], holder: str, *, timeout_s: float = 0) -> Lease:
        wanted = sorted(set(scopes))
        began = self._clock.monotonic()
        while True:
            try:
                return await self._in_thread(lambda: self._take(wanted, holder))
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
        await self._in_thread(lambda: self._check(self._writable(), lease))

    async def release(self, lease: Lease) -> None:
        with anyio.CancelScope(shield=True):
            await self._in_thread(lambda: self._release(lease))
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
        request = _Request(
            lease,
            lease.scope,
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

    async def unlock(self, scope: str, *, force: bool, by: str = "") -> str:
        return await self._in_thread(lambda: self._free(scope, force, by))

    async def take_over(self, environment: str, *, by: str) -> bool:
        return await self._in_thread(lambda: self._take_over(environment, by))

    async def backup(self, target: Path | None = None) -> Path:
        return await self._in_thread(lambda: self._backup(target))

    async def backups(self) -> Backups:
        return await self._in_thread(lambda: backups.known(self._path))

    async def restore(self, backup: Path | None = None, *, by: str = "") -> Restored:
        return await self._in_thread(lambda: self._restore(backup, by))

    async def export(self) -> Contents:
        return await self._in_thread(self._export)

    async def import_(self, contents: Contents) -> None:
        await self._in_thread(lambda: self._import(contents))

    async def retire(self, to: str, contents: Contents) -> None:
        await self._in_thread(lambda: self._retire(to, contents))

    async def revive(self) -> None:
        await self._in_thread(self._revive)

    async def verify(self) -> None:
        """Read everything. Raises StoreError naming the first record or journal row that was changed."""
        await self._in_thread(self._verify)

    async def close(self) -> None:
        """Close the file, and free leases that were not released."""
        with anyio.CancelScope(shield=True):
            await self._in_thread(self._close)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        def explaining() -> T:
            with explained(self._path, self._way_out):
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
        seen = checks.seen(self._place, self._lineage)
        with transaction(connection, "DEFERRED"):
            current = checks.read(connection)
            checks.verify_seen(current, seen)
            if self._loaded is None or self._loaded.version != current.heads:
                self._loaded = self._read(connection, current)
        self._verify_key(current)
        return self._loaded

    def _knows(self, kind: str) -> bool:
        if any(address.kind == kind for address in self._load().records):
            return True
        connection = self._readable()
        return connection is not None and journal.knows(connection, kind)

    def _journal(self, since: datetime | None) -> Sequence[tuple[str, JournalEntry]]:
        connection = self._readable()
        if connection is None:
            return ()
        with transaction(connection, "DEFERRED"):
            current = checks.read(connection)
            try:
                return journal.entries(connection, current, heads.read(connection, current), since)
            except (TypeError, ValueError) as error:
                raise Damaged("a row holds what was never written there") from error

    def _read(self, connection: sqlite3.Connection, current: Checks) -> State:
        """All of it, checked. In the caller's transaction."""
        try:
            check_pages(connection, ["records"], [*checks.SMALL_TABLES, "heads"])
            checks.verify_tables(connection, current)
            ends = heads.read(connection, current)
            journal.verify_newest(connection, current, ends)
            begun = dict.fromkeys(leases.scopes(connection), current.trunk_serial)
            return rules.as_moved(
                State(
                    self._lineage,
                    records.load(connection, heads.count(ends)),
                    journal.open_intents(connection, current),
                    journal.plans_run(connection),
                    unclaimed=journal.unclaimed(connection, current),
                    half_moved=journal.half_moved(connection, current),
                    serials=begun | {scope: head.serial for scope, head in ends.items()},
                    heads=heads.hashes(ends, current),
                    version=current.heads,
                    platform=journal.platform(connection),
                    new=journal.is_new(connection),
                )
            )
        except (KeyError, TypeError, ValueError) as error:
            raise Damaged("a row contains data that was never written there") from error

    def _verify(self) -> None:
        connection = self._readable()
        if connection is None:
            return
        seen = checks.seen(self._place, self._lineage)
        with transaction(connection, "DEFERRED"):
            current = backups.verify_all(connection)
        checks.verify_seen(current, seen)
        self._verify_key(current)

    def _verify_key(self, current: Checks) -> None:
        if current.key is None:
            return
        key = self._key()
        if key is None or backups.key_digest(key) != current.key:
            what = "missing" if key is None else "not the key with which secrets were fingerprinted"
            raise Damaged(f"{files.key_path(self._path).name} is {what}")

    def _way_out(self) -> tuple[str, Command]:
        return restore.way_out(self._path)

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
        if len(lease.epochs) == 1 or self._checked != (lease, version):
            leases.check(connection, lease)
        if len(lease.epochs) > 1:
            self._checked = (lease, version)

    def _take(self, scopes: Sequence[str], holder: str) -> Lease:
        self._checked = None
        connection = self._keyed()
        lease, numbers = leases.take(connection, self._place, scopes, holder, self._clock.now())
        self._held |= {scope: (lease.epochs[scope], number) for scope, number in numbers.items()}
        return lease

    def _release(self, lease: Lease) -> None:
        self._checked = None
        try:
            with suppress(Moved):  # with which all leases were given back
                leases.mark_released(self._writable(), self._place, lease)
        finally:
            self._unlock(scope for scope, epoch in lease.epochs.items() if self._holds(scope, epoch))

    def _take_over(self, environment: str, by: str) -> bool:
        self._heir = environment
        if self._readable() is None:
            raise StoreError(
                f"there is no state {self._path} to take over",
                help="pass that state with --state",
            )
        connection = self._writable()
        if self._environment == environment:
            return False
        with checks.writing(connection, self._place) as current:
            data = {"environment": environment, "by": by}
            entry = JournalEntry("", Event.DECIDED, self._clock.now(), data=data)
            _write(connection, current, WHOLE_STATE, [encode_entry(entry)])
            environments.write(connection, self._lineage, environment)
        self._environment = environment
        return True

    def _backup_after_commits(self) -> str:
        """What prevented a backup that is due, or ""."""
        if not self._makes_backups or not self._committed:
            return ""
        try:
            with explained(self._path, self._way_out):
                backups.make(self._writable(), self._path, self._clock.now())
                backups.prune(self._path)
        except StoreError as failure:
            return f"no backup of the state was made: {failure.message}"
        self._committed = False
        return ""

    def _backup(self, target: Path | None) -> Path:
        connection = self._readable()
        if connection is None:
            raise StoreError(f"there is no state {self._path}", help="check --state")
        self._verify()
        return backups.make(connection, self._path, self._clock.now(), target)

    def _restore(self, backup: Path | None, by: str) -> Restored:
        self._close()
        return restore.restore(self._place, backup, self._clock.now(), by, self._randomness)

    @contextmanager
    def _whole(self) -> Iterator[sqlite3.Connection]:
        """A connection of its own, also to a state that has moved."""
        if not files.state_exists(self._path):
            raise no_state(self._path)
        with closing(self._migrated()) as connection:
            lineage = checks.read(connection, moved=True).lineage
            environments.require(connection, self._path, lineage, self._environment)
            yield connection

    def _key(self) -> bytes | None:
        return files.read_key(files.key_path(self._path), sealed=self._sealed)

    def _export(self) -> Contents:
        with self._whole() as connection, transaction(connection, "DEFERRED"):
            self._verify_key(checks.read(connection, moved=True))
            return moving.export(connection, self._key())

    def _import(self, contents: Contents) -> None:
        contents_module.verify(contents)
        self._close()
        version = moving.free_for(self._path, contents)
        if version is None:
            known = [*self._place.seen_files(contents.lineage)]
            if self._key() == contents.key:  # an earlier attempt came as far as this
                known.append(files.key_path(self._path))
            files.refuse_beside_traces(self._place, known)
        seen = checks.newest(checks.seen(self._place, contents.lineage))
        version = max(version or 0, seen.version if seen is not None else 0) + 1
        make_private(self._path.parent)
        if contents.key and files.create_key(files.key_path(self._path), contents.key) != contents.key:
            raise StoreError(f"{files.key_path(self._path)} is the key of another state")
        files.create_state(
            self._path, lambda new: moving.fill(new, contents, version), replace=self._path.exists()
        )

    def _retire(self, to: str, contents: Contents) -> None:
        with self._whole() as connection:
            moving.retire(connection, self._place, to, contents, self._key())

    def _revive(self) -> None:
        with self._whole() as connection:
            moving.revive(connection, self._place)

    def _holders(self, scopes: Collection[str]) -> Mapping[str, Locked]:
        connection = self._readable()
        if connection is None:
            return {}
        checks.read(connection)
        return leases.holders(connection, files.lock_path(self._path), scopes, self._clock.now())

    def _free(self, scope: str, force: bool, by: str) -> str:
        self._checked = None
        connection = self._readable()
        found = leases.holder_of(connection, scope) if connection is not None else None
        if connection is None or found is None:
            raise StoreError(f"no run has ever locked the scope `{scope}`", help="check its name and --state")
        number, holder, since = found
        lock_file = files.lock_path(self._path)
        alive = not locks.try_lock(lock_file, number)
        try:
            if alive and not force:
                raise leases.locked_by(connection, scope, self._clock.now())
            with checks.writing(connection, self._place, checks.LEASES) as current:
                leases.replace(connection, scope)
                data = {"unlock": scope, "holder": holder, "since": since, "alive": alive, "by": by}
                entry = JournalEntry("", Event.DECIDED, self._clock.now(), data=data)
                _write(connection, current, scope, [encode_entry(entry)])
        finally:
            if not alive:
                locks.unlock(lock_file, number)
        if alive:
            return f"lock taken from {holder}, which can no longer write; stop that process before you apply"
        return "free: no process holds it"

    def _close(self) -> None:
        self._checked = self._loaded = None
        self._unlock(self._held)
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _flush(self, batch: Sequence[_Request]) -> None:
        """Store all requests of `batch` in one transaction, or else each in its own."""
        try:
            with explained(self._path, self._way_out):
                connection = self._writable()
                with checks.writing(connection, self._place, _tables(batch)) as current:
                    outcomes = [self._store(connection, current, request) for request in batch]
                self._committed = True
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

    def _store(
        self, connection: sqlite3.Connection, current: Checks, request: _Request
    ) -> Sequence[StateRecord]:
        self._check(connection, request.lease)
        for record, _ in request.put:
            if record.scope != request.scope:
                raise not_covered(record.scope, record.address)
        return _write(connection, current, request.scope, request.entries, request.put, request.remove)

    def _holds(self, scope: str, epoch: int) -> bool:
        return scope in self._held and self._held[scope][0] == epoch

    def _unlock(self, scopes: Iterable[str]) -> None:
        for scope in list(scopes):
            _, number = self._held.pop(scope)
            locks.unlock(files.lock_path(self._path), number)

    def _create(self) -> bool:
        lineage = ""
        if not files.state_exists(self._path):
            files.refuse_beside_traces(self._place)
            lineage = str(uuid.UUID(bytes=self._randomness(16), version=4))
            files.create_state(self._path, lambda new: schema.initialise(new, lineage, self._environment))
        self._keyed()
        return self._lineage == lineage  # another process may have been faster

    def _keyed(self) -> sqlite3.Connection:
        """The connection, after creating the key where who made the state did not come to it."""
        connection = self._writable()
        current = checks.read(connection)
        if current.key is None:
            key = files.create_key(files.key_path(self._path), self._fingerprint_key())
            with checks.writing(connection, self._place) as current:
                current.key = backups.key_digest(key)
        self._verify_key(current)
        return connection

    def _writable(self) -> sqlite3.Connection:
        """The connection, if its file is still the state: SQLite would go on writing to a deleted one."""
        connection = self._readable()
        if connection is None:
            raise no_state(self._path)
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
        connection = self._migrated()
        try:
            self._lineage = checks.read(connection).lineage
            self._environment = environments.require(
                connection, self._path, self._lineage, self._environment, self._heir
            )
            self._inode = _inode(self._path)
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def _migrated(self) -> sqlite3.Connection:
        """To the state of the newest version; with `read_only`, to a copy in memory where it is older."""
        if self._read_only:
            return backups.migrated_copy(self._path, self._tell)
        connection = connect(self._path)
        try:
            made = backups.migrate(connection, self._path, self._clock.now())
            if made:
                self._tell(made)
            use_wal(connection)
        except BaseException:
            connection.close()
            raise
        return connection


def _write(
    connection: sqlite3.Connection,
    current: Checks,
    scope: str,
    entries: Sequence[EntryColumns],
    put: Sequence[tuple[StateRecord, str]] = (),
    remove: Sequence[Address] = (),
) -> Sequence[StateRecord]:
    with heads.changing(connection, current, scope) as head:
        journal.append(connection, current, head, scope, entries)
        for address in remove:
            records.remove(connection, head, address, scope)
        return records.put(connection, head, put)


def _tables(batch: Iterable[_Request]) -> set[str]:
    """The small tables, besides those of every commit, that the entries of `batch` change."""
    starts = any(columns[1] == Event.RUN_STARTED for request in batch for columns in request.entries)
    return {"plans_run"} if starts else set()


def _inode(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino
