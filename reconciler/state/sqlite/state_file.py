"""One state's file, opened when it is first needed: whose it is, its key, and whether it is still there."""

import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from reconciler.core.advice import Command
from reconciler.core.clock import Clock
from reconciler.core.errors import StoreError
from reconciler.state.sqlite import backups, checks, environments, files, restore, schema
from reconciler.state.sqlite.checks import Checks
from reconciler.state.sqlite.database import Damaged, connect, use_wal
from reconciler.state.store import no_state, refuse_beside_traces


class StateFile:
    """The parameters are those of `SqliteStore`. All of it blocks.

    A state of an older version is migrated once something is to be written; until then it is read from a
    copy in memory that has the newest version.
    """

    def __init__(
        self,
        path: Path,
        clock: Clock,
        randomness: Callable[[int], bytes],
        tell: Callable[[str], None],
        *,
        environment: str,
        read_only: bool,
        sealed: bool = False,
    ) -> None:
        self.path = path
        self.clock = clock
        self.randomness = randomness
        self.environment = environment
        self.heir = ""  # the environment that is to take over a state of none
        self.lineage = ""
        self.connection: sqlite3.Connection | None = None
        self._tell = tell
        self._read_only = read_only
        self._sealed = sealed
        self._older = False
        self._beside: sqlite3.Connection | None = None
        self._inode = (0, 0)
        self._new_key: bytes | None = None

    def create(self) -> bool:
        """Make the state and its key, where they are missing; False where the state was there."""
        lineage = ""
        if not files.state_exists(self.path):
            refuse_beside_traces(self.path, files.traces_of(self.path))
            lineage = str(uuid.UUID(bytes=self.randomness(16), version=4))
            files.create_state(self.path, lambda new: schema.initialise(new, lineage, self.environment))
        if self.readable() is not None and not self._older:
            self.keyed()
        return self.lineage == lineage  # another process may have been faster

    def migrate(self) -> bool:
        """Bring the state to the newest version; False where it has that."""
        self.readable()
        older = self._older
        self.writable()
        return older

    def readable(self) -> sqlite3.Connection | None:
        """The connection; None when there is no state yet. Creates nothing."""
        if self.connection is None and files.state_exists(self.path):
            self._open(writes=False)
        return self.connection

    def writable(self) -> sqlite3.Connection:
        """The connection, if its file is still the state: SQLite would go on writing to a deleted one."""
        connection = self.readable()
        if connection is not None and self._older:
            self.close()
            connection = self._open(writes=True)
        if connection is None:
            raise no_state(self.path)
        if _inode(self.path) != self._inode:
            raise StoreError(
                f"the state {self.path} was replaced by another file during this run", help="run again"
            )
        return connection

    def beside(self) -> sqlite3.Connection:
        """Another connection to the same file, for questions that must not wait for the end of a commit."""
        if self._beside is None:
            self._beside = connect(self.path)
        self.writable()
        return self._beside

    def keyed(self) -> sqlite3.Connection:
        """`writable`, after creating the key where the process that created the state did not get to it."""
        connection = self.writable()
        current = checks.read(connection)
        if current.key is None:
            key = files.create_key(files.key_path(self.path), self.fingerprint_key())
            with checks.writing(connection, self.path) as current:
                current.key = backups.key_digest(key)
        self.verify_key(current)
        return connection

    @contextmanager
    def whole(self, *, writes: bool = True) -> Iterator[sqlite3.Connection]:
        """A connection of its own, also to a state that has moved."""
        if not files.state_exists(self.path):
            raise no_state(self.path)
        with closing(self._connected(writes=writes)[0]) as connection:
            lineage = checks.read(connection, moved=True).lineage
            environments.require(connection, self.path, lineage, self.environment)
            yield connection

    def key(self) -> bytes | None:
        return files.read_key(files.key_path(self.path), sealed=self._sealed)

    def fingerprint_key(self) -> bytes:
        """The key; where there is none yet, the one that `create` keeps."""
        stored = self.key()
        if stored is not None:
            return stored
        self._new_key = self._new_key or self.randomness(files.KEY_BYTES)
        return self._new_key

    def verify_key(self, current: Checks) -> None:
        """Raises Damaged unless the key is the one of the state."""
        if current.key is None:
            return
        key = self.key()
        if key is None or backups.key_digest(key) != current.key:
            what = "missing" if key is None else "not the key with which secrets were fingerprinted"
            raise Damaged(f"{files.key_path(self.path).name} is {what}")

    def way_out(self) -> tuple[str, Command]:
        return restore.way_out(self.path)

    def close(self) -> None:
        for connection in (self._beside, self.connection):
            if connection is not None:
                connection.close()
        self._beside = self.connection = None

    def _open(self, *, writes: bool) -> sqlite3.Connection:
        connection, self._older = self._connected(writes=writes)
        try:
            self.lineage = checks.read(connection).lineage
            self.environment = environments.require(
                connection, self.path, self.lineage, self.environment, self.heir
            )
            self._inode = _inode(self.path)
            self._hide_key()
        except BaseException:
            connection.close()
            raise
        self.connection = connection
        return connection

    def _hide_key(self) -> None:
        """Take the rights of others to the key away: with it, values are guessed from their fingerprints."""
        path = files.key_path(self.path)
        if not path.exists() or not path.stat().st_mode & 0o077:
            return
        if self._read_only:
            self._tell(f"others can read {path}, the key of the state: the next apply takes that right away")
            return
        try:
            path.chmod(0o600)
        except OSError as failure:
            raise StoreError(
                f"others can read {path}, the key of the state", help=f"chmod 600 {path}"
            ) from failure
        self._tell(f"others could read {path}, the key of the state: now only its owner can")

    def _connected(self, *, writes: bool) -> tuple[sqlite3.Connection, bool]:
        """A connection, and whether it is to a copy in memory, because the state is of an older version."""
        if self._read_only:
            return backups.migrated_copy(self.path, self._tell), False
        connection = connect(self.path)
        try:
            if not writes and schema.require(connection, self.path) < schema.VERSION:
                connection.close()
                return backups.migrated_copy(self.path, self._tell), True
            made = backups.migrate(connection, self.path, self.clock.now())
            if made:
                self._tell(made)
            use_wal(connection)
        except BaseException:
            connection.close()
            raise
        return connection, False


def _inode(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino
