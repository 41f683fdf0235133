"""The store of a provider: one SQLite file that its workers share, and a key file next to it.

WAL with synchronous FULL: an answered call survives the machine. Files are 0600. No `config`, no token and no
cookie is stored: a configuration is made again from the key (`Resource.secret`), a cookie is known by its
digest. A lease holds as long as an OS lock on its holder's own file: the leases of a killed worker are free
at once, and those of a slow one never are.
"""

import fcntl
import hmac
import os
import secrets
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reconciler.core.errors import StoreError

_APPLICATION_ID = 0x52637076  # "Rcpv"
_BUSY_TIMEOUT_MS = 10_000
_KEY_BYTES = 32

# Entry n takes a database from version n to n + 1; entries are only ever added. Times are UNIX seconds.
# `nonces` and `events`: digests that were seen. `resources`: orders and their phase. `leases`: which worker
# does what. `sign_ins`: attempts that are under way. `sessions`: signed-in browsers. `people`: everybody who
# ordered or signed in. `outbox`: webhooks that are sent, waiting or given up.
_MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
        "CREATE TABLE nonces (digest TEXT PRIMARY KEY, seen_at REAL NOT NULL) WITHOUT ROWID",
        "CREATE INDEX nonces_by_age ON nonces (seen_at)",
        # `fingerprint`: of the order that made it. `wanted`: the order as later updates left it.
        """CREATE TABLE resources (
            id TEXT PRIMARY KEY, resource_id TEXT NOT NULL UNIQUE, fingerprint TEXT NOT NULL,
            first TEXT NOT NULL, wanted TEXT NOT NULL, phase TEXT NOT NULL, status TEXT NOT NULL, plan TEXT,
            name TEXT NOT NULL, platform_app_name TEXT, config_digest TEXT, problem TEXT,
            made_at REAL NOT NULL
        ) WITHOUT ROWID""",
        "CREATE TABLE leases (name TEXT PRIMARY KEY, holder TEXT NOT NULL) WITHOUT ROWID",
        """CREATE TABLE sign_ins (
            state TEXT PRIMARY KEY, browser TEXT NOT NULL, resource_id TEXT NOT NULL,
            verifier TEXT NOT NULL, ends_at REAL NOT NULL
        ) WITHOUT ROWID""",
        """CREATE TABLE sessions (
            token TEXT PRIMARY KEY, user_id TEXT NOT NULL, name TEXT NOT NULL, email TEXT NOT NULL,
            organization_id TEXT NOT NULL, role TEXT NOT NULL, ends_at REAL NOT NULL
        ) WITHOUT ROWID""",
        """CREATE TABLE people (
            organization_id TEXT NOT NULL, user_id TEXT NOT NULL, email TEXT NOT NULL, role TEXT NOT NULL,
            seen_at REAL NOT NULL, PRIMARY KEY (organization_id, user_id)
        ) WITHOUT ROWID""",
        "CREATE TABLE events (digest TEXT PRIMARY KEY, seen_at REAL NOT NULL) WITHOUT ROWID",
        # `signed_at`: the timestamp of the body that is being sent, in whole seconds.
        """CREATE TABLE outbox (
            seq INTEGER PRIMARY KEY AUTOINCREMENT, resource_id TEXT NOT NULL, action TEXT NOT NULL,
            resource TEXT NOT NULL, made_at REAL NOT NULL, attempts INTEGER NOT NULL DEFAULT 0,
            next_at REAL NOT NULL, signed_at INTEGER, problem TEXT, ended_at REAL,
            outcome TEXT NOT NULL DEFAULT 'waiting'
        )""",
        "CREATE INDEX outbox_waiting ON outbox (resource_id, seq) WHERE outcome = 'waiting'",
    ),
    (
        # `own_name`: whether the provider gave `name` in place of the order's.
        "ALTER TABLE resources ADD COLUMN own_name INTEGER NOT NULL DEFAULT 0",
        "UPDATE resources SET own_name = name IS NOT json_extract(wanted, '$.name')",
    ),
)
VERSION = len(_MIGRATIONS)


class Store:
    """One worker's connection. Raises StoreError when the file is not a provider's, or a newer program's.

    Queries are synchronous: they take microseconds, and a transaction must not be cut by another task.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self.worker = secrets.token_hex(8)
        self._workers = path.with_name(f"{path.name}.workers")
        try:
            _make_folder(path.parent)
            self._workers.mkdir(mode=0o700, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            with os.fdopen(_hold(path.with_name(f"{path.name}.lock"))):
                self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
                self._connection.row_factory = sqlite3.Row
                self._migrate()
                self.key = self._read_key()
            self._own = _hold(self._workers / self.worker)
        except sqlite3.Error as error:
            self._disconnect()
            raise StoreError(f"{path} cannot be used as a provider's store: {error}") from error
        except OSError as error:
            self._disconnect()
            raise StoreError(f"the store {path} cannot be opened: {error.strerror}") from error
        except StoreError:
            self._disconnect()
            raise

    def close(self) -> None:
        """Close the database, and give the worker's leases back."""
        self._disconnect()
        (self._workers / self.worker).unlink(missing_ok=True)
        os.close(self._own)

    def rows(self, query: str, *values: Any) -> Sequence[sqlite3.Row]:
        """All rows of a query."""
        return self._open.execute(query, values).fetchall()

    def row(self, query: str, *values: Any) -> sqlite3.Row | None:
        """The first row of a query; None when there is none."""
        found: sqlite3.Row | None = self._open.execute(query, values).fetchone()
        return found

    def change(self, statement: str, *values: Any) -> int:
        """Run one statement, durably when no `transaction` is open: the number of rows that it changed."""
        return self._open.execute(statement, values).rowcount

    def insert(self, table: str, *, replacing: bool = False, **columns: Any) -> None:
        """Insert a row. `replacing`: in place of the one with the same key, if there is one."""
        verb = "INSERT OR REPLACE" if replacing else "INSERT"
        marks = ", ".join("?" * len(columns))
        self.change(f"{verb} INTO {table} ({', '.join(columns)}) VALUES ({marks})", *columns.values())

    def update(self, table: str, where: Mapping[str, Any], **columns: Any) -> int:
        """Set `columns` of the rows that have exactly the values of `where`: how many there are."""
        settings = ", ".join(f"{name} = ?" for name in columns)
        wanted = " AND ".join(f"{name} IS ?" for name in where)
        statement = f"UPDATE {table} SET {settings} WHERE {wanted}"  # noqa: S608 - our own names
        return self.change(statement, *columns.values(), *where.values())

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of the block is stored, or nothing; nobody else writes meanwhile. The block must not wait."""
        with self._open:  # commits, or rolls back
            self._open.execute("BEGIN IMMEDIATE")
            yield

    def claim(self, table: str, digest: str, now: float) -> bool:
        """Record `digest` in `table` (nonces, events); False when it was there. One INSERT: one winner."""
        return self.change(f"INSERT OR IGNORE INTO {table} VALUES (?, ?)", digest, now) == 1  # noqa: S608

    def forget_before(self, table: str, moment: float) -> None:
        """Delete the digests of `table` that were seen before `moment`."""
        self.change(f"DELETE FROM {table} WHERE seen_at < ?", moment)  # noqa: S608 - our own names

    def take(self, name: str) -> bool:
        """Take the lease `name` for this worker; False: a living worker has it (this one included)."""
        with self.transaction():
            found = self.row("SELECT holder FROM leases WHERE name = ?", name)
            if found is not None and self._lives(found["holder"]):
                return False
            self.change("INSERT OR REPLACE INTO leases VALUES (?, ?)", name, self.worker)
        return True

    def release(self, name: str) -> None:
        """Give the lease `name` back, if this worker has it."""
        self.change("DELETE FROM leases WHERE name = ? AND holder = ?", name, self.worker)

    @property
    def _open(self) -> sqlite3.Connection:
        assert self._connection is not None
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _lives(self, holder: str) -> bool:
        """Whether the worker runs: it holds a lock on its own file, which the kernel frees when it dies."""
        file = self._workers / holder
        try:
            descriptor = os.open(file, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            file.unlink(missing_ok=True)
            return False
        finally:
            os.close(descriptor)

    def _migrate(self) -> None:
        """Bring the file to `VERSION`. Raises StoreError for a foreign file, or a newer program's."""
        execute = self._open.execute
        execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
        (application,) = execute("PRAGMA application_id").fetchone()
        (version,) = execute("PRAGMA user_version").fetchone()
        (tables,) = execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application != _APPLICATION_ID and (version or tables):
            raise StoreError(f"{self._path} is a database, but not a provider's", help="name another file")
        if version > VERSION:
            raise StoreError(
                f"{self._path} was written by a newer version of this program", help="upgrade this program"
            )
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = FULL")
        if version == VERSION:
            return
        with self.transaction():
            for statement in (statement for step in _MIGRATIONS[version:] for statement in step):
                execute(statement)
            execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            execute(f"PRAGMA user_version = {VERSION}")

    def _read_key(self) -> bytes:
        """The key next to the store; made with the store, and never again: configurations depend on it."""
        file = self._path.with_name(f"{self._path.name}.key")
        known = self.row("SELECT value FROM meta WHERE name = 'key'")
        if known is None and not file.exists():
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as opened:
                opened.write(secrets.token_bytes(_KEY_BYTES))
                opened.flush()
                os.fsync(opened.fileno())
        try:
            key = file.read_bytes()
        except OSError as error:
            raise StoreError(
                f"the key {file} cannot be read: {error.strerror}",
                help="restore it from a backup: without it, the passwords that were handed out cannot "
                "be derived again",
            ) from error
        check = hmac.digest(key, b"provider store", "sha256").hex()
        if len(key) != _KEY_BYTES or (known is not None and known["value"] != check):
            raise StoreError(f"{file} is not the key of {self._path}", help="restore it from a backup")
        if known is None:
            self.change("INSERT INTO meta VALUES ('key', ?)", check)
        return key


def _make_folder(folder: Path) -> None:
    """Make the project's own `.reconcile`. Raises StoreError for another folder, which is probably a typo."""
    needed = folder.parent if folder.name == ".reconcile" else folder
    if not needed.is_dir():
        raise StoreError(f"the directory {needed} does not exist", help="create it, or name another file")
    folder.mkdir(mode=0o700, exist_ok=True)


def _hold(file: Path) -> int:
    """A descriptor of `file` that holds its lock until it is closed, or until the process is dead."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor
