"""The one store over a state in a file, and what a file has besides: backups, a way back, older versions."""

import os
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace as with_fields
from pathlib import Path

import anyio
from msgspec.structs import replace

from reconciler.core.clock import Clock
from reconciler.core.errors import Locked, StoreError
from reconciler.core.model import Address, StateRecord
from reconciler.state.contents import Contents
from reconciler.state.log import root, writes
from reconciler.state.log.bucket import Bucket, unsealed
from reconciler.state.log.keys import Layout
from reconciler.state.log.lease_taking import Obstacle
from reconciler.state.log.store import LogStore
from reconciler.state.places.sqlite import backups, files, restore, seen, whole
from reconciler.state.places.sqlite.holders import ByteHolders, nobody_else
from reconciler.state.places.sqlite.state_file import StateFile
from reconciler.state.store import (
    WHOLE_STATE,
    Backups,
    Event,
    JournalEntry,
    Lease,
    Restored,
    State,
    no_state,
    refuse_beside_traces,
)

_KEY_BYTES = 32


class SqliteStore(LogStore):
    """A `store.Store` over the file `path`. Close it to free its leases.

    `randomness(n)` gives n bytes. `tell` gets a line about what failed besides the requested work. `backups`:
    whether `release` makes one after commits. `environment`: whose state it must be ("": that of none).
    `read_only`: change no file, and make none. `seal`: gives the bucket that encrypts, or opens, a copy of an
    encrypted state.
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
        seal: Callable[[Bucket], Bucket] = unsealed,
    ) -> None:
        self.path = path
        self._file = StateFile(
            path, clock, tell, environment=environment, read_only=read_only, sealed=seal is not unsealed
        )
        super().__init__(
            seal(self._file),
            clock,
            randomness,
            exclusion=ByteHolders(files.lock_path(path)),
            environment=environment,
            read_only=read_only,
        )
        self._seal = seal
        self._tell = tell
        self._makes_backups = backups
        self._committed = False  # since the newest backup

    async def commit(
        self,
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord] = (),
        remove: Sequence[Address] = (),
    ) -> Sequence[StateRecord]:
        stored = await super().commit(lease, entries, put, remove)
        self._committed = True
        return stored

    async def release(self, lease: Lease) -> None:
        with anyio.CancelScope(shield=True):
            await super().release(lease)
            if self._makes_backups and self._committed:
                await self._backup_after_commits()

    async def take_over(self, environment: str, *, by: str) -> bool:
        await self.close()
        self._file.heir = environment
        if await self._in_thread(self._file.opened) is None:
            raise StoreError(
                f"there is no state {self.path} to take over", help="pass that state with --state"
            )
        if self._file.environment == environment:
            self._become(environment)
            return False
        lease = await self.lease([WHOLE_STATE], by)
        data = {"environment": environment, "by": by}
        await self.commit(lease, [JournalEntry("", Event.DECIDED, self._clock.now(), data=data)])
        await self._in_thread(lambda: self._give_to(environment))
        await self.release(lease)
        return True

    async def backup(self, target: Path | None = None) -> Path:
        await self.verify()
        return await self._in_thread(lambda: self._backup(target))

    async def backups(self) -> Backups:
        return await self._in_thread(lambda: backups.known(self.path))

    async def migrate(self) -> bool:
        return await self._in_thread(self._file.migrate)

    async def restore(self, backup: Path | None = None, *, by: str = "") -> Restored:
        await self.close()
        return await self._in_thread(lambda: self._restore(backup, by))

    async def import_(self, contents: Contents) -> None:
        """As in `Movable`. A state that moved away is replaced in its file, any other in a new one."""
        if await self._in_thread(self._file.opened) is not None:
            await super().import_(contents)
        else:
            await self._in_thread(lambda: self._make(contents))

    async def verify(self) -> None:
        if await self._in_thread(self._file.opened) is not None:
            await self._in_thread(self._verify_file)
            await super().verify()

    async def close(self) -> None:
        """Close the file, and free leases that were not released."""
        with anyio.CancelScope(shield=True):
            await super().close()
            await self._in_thread(self._file.close)

    async def _backup_after_commits(self) -> None:
        try:
            await self._in_thread(lambda: self._backup(None))
            await self._in_thread(lambda: backups.prune(self.path))
            self._committed = False
        except StoreError as failure:
            self._tell(f"no backup of the state was made: {failure.message}")

    # --- in a worker thread ---

    def _load(self) -> State:
        self._file.require_newest()
        state = super()._load()
        if state.lineage:
            return state
        return with_fields(state, traces=tuple(map(str, files.traces_of(self.path))))

    def _create(self) -> bool:
        if self._root() is not None:
            return False
        self._forbid_read_only()
        lineage = str(uuid.UUID(bytes=self._randomness(16), version=4))
        self._make(Contents(lineage, self._fingerprint_key(), self._environment))
        found = self._root()
        return found is not None and found.lineage == lineage  # another process may have been faster

    def _take(self, scopes: Sequence[str], holder: str) -> Lease | Obstacle:
        self._forbid_read_only()
        self._file.migrate()  # before there is a lease, in whose way it would be
        return super()._take(scopes, holder)

    def _make(self, contents: Contents) -> None:
        """A new file that holds this."""
        known = seen.read(self.path, contents.lineage)
        expected = [files.seen_path(self.path)] if known.version else []
        refuse_beside_traces(self.path, [each for each in files.traces_of(self.path) if each not in expected])
        whole.make(self.path, contents, known.version + 1, self._nonce, self._seal)

    def _restore(self, backup: Path | None, by: str) -> Restored:
        try:
            with nobody_else(self.path):
                return restore.restore(
                    self.path,
                    backup,
                    self._clock.now(),
                    by,
                    self._nonce,
                    lambda: self._randomness(_KEY_BYTES),
                )
        except Locked as locked:
            raise self._holder() or locked from None
        finally:
            self._file.close()

    def _holder(self) -> Locked | None:
        """Who has a scope; None where the state is too damaged to tell."""
        with suppress(StoreError):
            found = self._root()
            for each in self._obstacles(found.scopes if found is not None else ()).values():
                return each.locked
        return None

    def _give_to(self, environment: str) -> None:
        known = root.read(self._file, self._layout, self._environment)
        if known is None:
            raise no_state(self.path)
        after = replace(known[0].next(self._nonce()), environment=environment)
        writes.replace(self._file, self._layout.root, after.encode(), known[1])
        self._become(environment)

    def _become(self, environment: str) -> None:
        self._environment = self._file.environment = environment
        self._layout = Layout(environment)

    def _verify_file(self) -> None:
        self._file.require_newest()
        self._file.verify()

    def _backup(self, target: Path | None) -> Path:
        return self._file.copy(target, self._clock.now())
