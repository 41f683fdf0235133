"""The bucket of one state file: it is opened when it is first needed, and belongs to one environment."""

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from datetime import datetime
from pathlib import Path
from typing import Any

from reconciler.core.advice import Command, command
from reconciler.core.clock import Clock
from reconciler.core.context import BASE
from reconciler.core.errors import StoreError
from reconciler.state.encryption.bucket import header
from reconciler.state.log import root as roots
from reconciler.state.log.bucket import Layout
from reconciler.state.log.damage import Damaged
from reconciler.state.places.sqlite import backups, database, files, locks, older, seen, whole
from reconciler.state.places.sqlite.bucket import TableBucket
from reconciler.state.places.sqlite.seen import Seen
from reconciler.state.store import no_state


class StateFile(TableBucket):
    """The objects in a state file, and the key next to it. The parameters are those of `SqliteStore`.

    A state of an older version is migrated once something is to be written; until then it is read from a
    copy in memory that has the newest version.
    """

    def __init__(
        self,
        path: Path,
        clock: Clock,
        tell: Callable[[str], None],
        *,
        environment: str,
        read_only: bool,
        sealed: bool = False,
    ) -> None:
        super().__init__(str(path))
        self.path = path
        self.environment = environment
        self.heir = ""  # the environment that is to take over a state of none
        self.lineage = ""
        self.key_digest = b""  # of the fingerprint key; b"" while there is none
        self._clock = clock
        self._tell = tell
        self._read_only = read_only
        self.is_sealed_copy = False  # of an encrypted state: it holds its key itself
        self._sealed = sealed  # the key may be that of an encrypted state
        self.is_older = False
        self._writing: sqlite3.Connection | None = None
        self._inode = (0, 0)

    def exists(self) -> bool:
        """Whether there is a state. Raises StoreError where there is another thing, or only a rest of one."""
        with self.reading() as connection:
            return connection is not None

    def migrate(self) -> bool:
        """Bring the state to the newest version; False where it has that."""
        with self._explained(), self._turn:
            was_older = self.exists() and self.is_older
            if was_older:
                self._writable()
            return was_older

    def key(self) -> bytes | None:
        """The fingerprint key; None where it was not made yet. Raises StoreError for another one."""
        with self.reading():
            key = files.read_key(self.path, sealed=self._sealed)
            if self.key_digest and files.key_digest(key) != self.key_digest:
                what = "missing" if key is None else "not the key with which secrets were fingerprinted"
                raise Damaged(f"{files.key_path(self.path).name} is {what}")
            return key

    def require_newest(self) -> None:
        """Raises StoreError when changes that were acknowledged are missing."""
        with self.reading() as connection:
            if connection is not None:
                known = seen.read(self.path, self.lineage)  # before the state: others write meanwhile
                if missing := known.missing_in(seen.of(connection), self.path):
                    raise Damaged(missing)

    def verify(self) -> None:
        """Read all of it, byte by byte. Raises StoreError."""
        self.require_newest()
        with self.reading() as connection:
            if connection is not None:
                whole.verify(connection)
        self.key()

    def copy(self, target: Path | None, at: datetime) -> Path:
        """As `backups.make`. Raises StoreError."""
        with self.reading() as connection:
            if connection is None:
                raise StoreError(f"there is no state {self.path}", help="check --state")
            return backups.make(connection, self.path, at, target)

    def way_out(self) -> tuple[str, Command]:
        return backups.way_out(self.path)

    def close(self) -> None:
        with self._turn, self._lock:
            for connection in (self._writing, self._connection):
                if connection is not None:
                    connection.close()
            self._connection = self._writing = None

    def _explained(self) -> AbstractContextManager[None]:
        return database.explained(self.path, self.way_out)

    def _readable(self) -> sqlite3.Connection | None:
        if self._connection is None:
            if files.state_exists(self.path):
                self._open()
        elif _inode(self.path) != self._inode:  # SQLite would go on with a file that was deleted
            raise StoreError(
                f"the state {self.path} was replaced by another file during this run", help="run again"
            )
        return self._connection

    def _writable(self) -> sqlite3.Connection:
        with self._lock:
            connection = self._readable()
            if connection is None:
                raise no_state(self.path)
            if self._read_only:
                return connection
            if self.is_older:
                self._migrate()
                self.close()
            if self._writing is None:
                self._writing = database.connect(self.path)
            return self._writing

    def _tell_seen(self, changes: tuple[Any, ...]) -> None:
        seen.write(self.path, self.lineage, Seen(*changes))

    def _open(self) -> None:
        connection = database.connect(self.path, read_only=self._read_only)
        try:
            version = database.require(connection, self.path)
            self.is_older = version < database.VERSION
            if self.is_older:
                connection = older.newest(connection, self.path)
                self._tell_older(version)
            elif not self._read_only:
                database.use_wal(connection)
            self._connection, self._inode = connection, _inode(self.path)
            self._require_ours()
            self._hide_key()
        except BaseException:
            connection.close()
            self._connection = None
            raise

    def _require_ours(self) -> None:
        """Raises StoreError where the state belongs to another environment."""
        found = self.get(Layout(self.environment).root)
        if found is None:
            raise Damaged("state.json is missing")
        copy = header(found.body)
        if copy is not None:
            files.read_key(self.path, sealed=self._sealed)
        root, self.is_sealed_copy = copy or roots.decoded(self, found), copy is not None
        if root.environment != self.environment and not (self.heir and root.environment in ("", self.heir)):
            raise _of_another(self.path, root.environment, self.heir or self.environment)
        self.lineage, self.environment, self.key_digest = root.lineage, root.environment, root.key

    def _migrate(self) -> None:
        """Bring the file to the newest version, once it was copied, while nobody holds a lease."""
        with closing(database.connect(self.path)) as connection, locks.nobody_else(self.path):
            if made := backups.migrate(connection, self.path, self._clock.now()):
                self._tell(made)
            database.use_wal(connection)

    def _tell_older(self, version: int) -> None:
        apply, migrate = command("apply"), command("state", "migrate")
        self._tell(
            f"the state has version {version}, of an older program: `{apply}` or `{migrate}` brings it to "
            f"version {database.VERSION}"
        )

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


def _of_another(path: Path, owner: str, wanted: str) -> StoreError:
    if owner:
        return StoreError(
            f"the state {path} belongs to environment `{owner}`, and not to `{wanted or BASE}`",
            help=f"pass --env {owner}, or name another state",
        )
    take_over = command("state", "init", "--take-over")
    return StoreError(
        f"the state {path} belongs to `{BASE}`, and not to `{wanted}`",
        help=f"pass --env {BASE}, or name another state; to make it the state of `{wanted}` "
        f"permanently, run `{take_over}`",
        advice=(take_over,),
    )


def _inode(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino
