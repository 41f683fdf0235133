"""The one store over a state file, with what only a file has: backups, restore, older versions, its key."""

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
from reconciler.state import contents as wholes
from reconciler.state.contents import StateDump
from reconciler.state.durable import make_private
from reconciler.state.encryption.bucket import SealedBucket
from reconciler.state.log import root
from reconciler.state.log.bucket import Bucket, Layout, unsealed
from reconciler.state.log.store import LogStore
from reconciler.state.places.sqlite import backups, database, files, restore, seen, whole
from reconciler.state.places.sqlite.locks import ByteHolders, nobody_else
from reconciler.state.places.sqlite.state_file import StateFile
from reconciler.state.store import (
    WHOLE_STATE,
    Backups,
    Event,
    JournalEntry,
    Lease,
    Restored,
    State,
    refuse_beside_traces,
)


class SqliteStore(LogStore):
    """A `store.Store` over the file `path`. Close it to free its leases.

    `randomness(n)` gives n bytes. `tell` gets a line about what failed besides the requested work. `backups`:
    whether `release` makes one after commits. `environment`: whose state it must be ("": that of none).
    `read_only`: change no file, and make none. `seal`: gives the bucket that encrypts,
    or opens, the copy of an encrypted state.
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
        sealed = seal is not unsealed
        self._file = StateFile(path, clock, tell, environment=environment, read_only=read_only, sealed=sealed)
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
        if not await self._in_thread(self._file.exists):
            raise StoreError(
                f"there is no state {self.path} to take over", help="pass that state with --state"
            )
        if self._file.environment == environment:
            return False
        lease = await self.lease([WHOLE_STATE], by)
        data = {"environment": environment, "by": by}
        await self.commit(lease, [JournalEntry("", Event.DECIDED, self._clock.now(), data=data)])
        nonce = self._nonce()
        await self._in_thread(
            lambda: root.change(
                self._file, self._layout, lambda known: replace(known, environment=environment), nonce
            )
        )
        self._layout = Layout(environment)
        await self.release(lease)
        return True

    async def backup(self, target: Path | None = None) -> Path:
        """A complete, verified copy in `target`, which must not exist, or among the kept ones."""
        await self.verify()
        return await self._in_thread(lambda: self._file.copy(target, self._clock.now()))

    async def backups(self) -> Backups:
        """What there is to go back to. Reads files only, also where the state itself is damaged."""
        return await self._in_thread(lambda: backups.known(self.path))

    async def migrate(self) -> bool:
        """Bring a state of an older version to the newest, once it was copied; False where it has that.

        Whatever writes does so, too; what only reads leaves it as it is.
        """
        return await self._in_thread(self._file.migrate)

    async def restore(self, backup: Path | None = None, *, by: str = "") -> Restored:
        """Put a backup (None: the newest good one) in the state's place, with all that can be salvaged.

        The damaged files are renamed (`NAME.damaged-TIME`). Raises StoreError, and changes nothing, when the
        backup is not good, and Locked while a process holds any lease; and when there is no `backup` and no
        damage.
        """
        await self.close()
        return await self._in_thread(lambda: self._restore(backup, by))

    async def import_(self, contents: StateDump) -> None:
        """As in `LogStore`. A state that moved away is replaced in its file, any other in a new one."""
        wholes.verify(contents)
        if await self._in_thread(self._file.exists):
            await self._in_thread(lambda: self._replace_key(contents))
            await super().import_(_with_digest(contents))
        else:
            await self._in_thread(lambda: self._make(contents))

    async def export(self) -> StateDump:
        contents = await super().export()
        if self._file.is_sealed_copy:
            return contents
        return with_fields(contents, key=await self._in_thread(lambda: self._file.key() or b""))

    async def retire(self, to: str, contents: StateDump) -> None:
        await super().retire(to, _with_digest(contents))

    async def verify(self) -> None:
        if await self._in_thread(self._file.exists):
            await self._in_thread(self._file.verify)
            await super().verify()

    async def close(self) -> None:
        """Close the file, and free leases that were not released."""
        with anyio.CancelScope(shield=True):
            await super().close()
            await self._in_thread(self._file.close)

    async def _backup_after_commits(self) -> None:
        try:
            await self._in_thread(lambda: self._file.copy(None, self._clock.now()))
            await self._in_thread(lambda: backups.prune(self.path))
            self._committed = False
        except StoreError as failure:
            self._tell(f"no backup of the state was made: {failure.message}")

    # --- in a worker thread ---

    def _load(self) -> State:
        self._file.require_newest()
        state = super()._load()
        if state.lineage:
            self._file.key()
            return state
        return with_fields(state, traces=tuple(map(str, files.traces_of(self.path))))

    def _create(self) -> bool:
        lineage = ""
        if self._root() is None:
            self._forbid_read_only()
            lineage = str(uuid.UUID(bytes=self._randomness(16), version=4))
            self._make(StateDump(lineage, b"", self._layout.environment))
        if not self._read_only and not self._file.is_older:
            self._complete_key()
        found = self._root()
        return found is not None and found.lineage == lineage  # another process may have been faster

    def _take(self, scopes: Sequence[str], holder: str) -> Lease | Locked:
        self._forbid_read_only()
        self._file.migrate()  # before there is a lease, in whose way it would be
        if self._root() is not None:
            self._complete_key()
            self._file.key()
        return super()._take(scopes, holder)

    def _make(self, contents: StateDump) -> None:
        """Make a file that holds `contents`. Raises StoreError where traces of another state are there."""
        sealing = self.bucket if isinstance(self.bucket, SealedBucket) else None
        key, inside = (
            (contents.key, _with_digest(contents)) if sealing is None else (sealing.key_file, contents)
        )
        known = seen.read(self.path, contents.lineage)
        expected = [files.seen_path(self.path)] if known.version else []
        if key and files.read_key(self.path, sealed=True) == key:
            expected.append(files.key_path(self.path))  # an earlier attempt came as far as this
        refuse_beside_traces(self.path, [file for file in files.traces_of(self.path) if file not in expected])
        self._keep_key(key)
        with database.explained(self.path):  # such as a full disk
            whole.make(self.path, inside, known.version + 1, self._randomness, self._seal)

    def _replace_key(self, contents: StateDump) -> None:
        """Before `contents` take the place of the state here, where that has moved away."""
        found = root.read(self._file, self._layout)
        if found is not None and found[0].moved_to and found[0].lineage == contents.lineage:
            self._keep_key(contents.key)

    def _keep_key(self, key: bytes) -> None:
        """Write the key next to the state. Raises StoreError where another one is there."""
        with database.explained(self.path):
            make_private(self.path.parent)
            if key and files.create_key(self.path, key) != key:
                raise StoreError(f"{files.key_path(self.path)} is the key of another state")

    def _complete_key(self) -> None:
        """Make the key where the process that made the state did not get to it."""
        if not self._file.key_digest:
            with database.explained(self.path):
                digest = files.key_digest(files.create_key(self.path, self._fingerprint_key()))
            known = root.change(
                self._file, self._layout, lambda known: replace(known, key=known.key or digest), self._nonce()
            )
            self._file.key_digest = known.key

    def _fingerprint_key(self) -> bytes:
        """The key next to the state. Without a state there may be none: then one that `create` keeps."""
        self._new_key = self._file.key() or self._new_key or self._randomness(files.KEY_BYTES)
        return self._new_key

    def _restore(self, backup: Path | None, by: str) -> Restored:
        try:
            with database.explained(self.path), nobody_else(self.path):
                return restore.restore(self.path, backup, self._clock.now(), by, self._randomness)
        except Locked as locked:
            raise self._holder() or locked from None
        finally:
            self._file.close()

    def _holder(self) -> Locked | None:
        """Who has a scope; None where the state is too damaged to tell."""
        with suppress(StoreError):
            found = self._root()
            return next(iter(self._obstacles(found.scopes if found is not None else ()).values()), None)
        return None


def _with_digest(contents: StateDump) -> StateDump:
    """As its file holds it: the key is in another one."""
    return with_fields(contents, key=files.key_digest(contents.key))
