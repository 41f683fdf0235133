"""The tables of the SQLite state, as numbered migrations that are only ever added to."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

from reconciler.core.advice import command
from reconciler.core.errors import StoreError
from reconciler.state.sqlite import checks, earlier, environments
from reconciler.state.sqlite.database import transaction, use_wal

APPLICATION_ID = 0x52636E63  # "Rcnc": tells our file from any other SQLite database

# Entry n takes a database from version n to n + 1. `PRAGMA user_version` holds the version.
Statement = str | Callable[[sqlite3.Connection], None]
MIGRATIONS: tuple[tuple[Statement, ...], ...] = (
    (
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID",
        """CREATE TABLE records (
            kind TEXT NOT NULL, app TEXT NOT NULL, name TEXT NOT NULL, ordinal INTEGER NOT NULL,
            serial INTEGER NOT NULL, body TEXT NOT NULL, digest TEXT NOT NULL,
            PRIMARY KEY (kind, app, name, ordinal)
        ) WITHOUT ROWID""",
        """CREATE TABLE journal (
            seq INTEGER PRIMARY KEY, run TEXT NOT NULL, event TEXT NOT NULL, at TEXT NOT NULL,
            address TEXT, step TEXT NOT NULL, attempt INTEGER NOT NULL, data TEXT NOT NULL,
            hash TEXT NOT NULL
        )""",
        # What `load` needs of the journal, so that it never reads all of it.
        """CREATE TABLE open_intents (
            run TEXT NOT NULL, step TEXT NOT NULL, attempt INTEGER NOT NULL, seq INTEGER NOT NULL,
            PRIMARY KEY (run, step, attempt)
        ) WITHOUT ROWID""",
        "CREATE TABLE plans_run (plan TEXT PRIMARY KEY) WITHOUT ROWID",
        # `number` is the scope's byte in the lock file: it never changes and is never used again.
        """CREATE TABLE leases (
            number INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL UNIQUE,
            epoch INTEGER NOT NULL DEFAULT 0, holder TEXT NOT NULL DEFAULT '',
            since TEXT NOT NULL DEFAULT '', released INTEGER NOT NULL DEFAULT 1
        )""",
        "CREATE INDEX leases_held ON leases (scope, epoch) WHERE released = 0",
        "INSERT INTO meta (key, value) VALUES ('serial', 0)",
    ),
    (
        "CREATE TABLE unclaimed (id TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID",
        earlier.first_checks,
    ),
    (
        "ALTER TABLE journal ADD COLUMN scope TEXT NOT NULL DEFAULT ''",
        "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
        earlier.cover_facts,
    ),
    (
        # `row` counts what the file holds; `seq` counts within the chain that the row belongs to.
        "ALTER TABLE journal RENAME COLUMN seq TO row",
        "ALTER TABLE open_intents RENAME COLUMN seq TO row",
        "ALTER TABLE unclaimed RENAME COLUMN seq TO row",
        "ALTER TABLE journal ADD COLUMN seq INTEGER NOT NULL DEFAULT 0",
        "UPDATE journal SET seq = row",
        "CREATE UNIQUE INDEX chains ON journal (scope, seq)",
        "CREATE TABLE half_moved (source TEXT PRIMARY KEY, row INTEGER NOT NULL) WITHOUT ROWID",
        """CREATE TABLE heads (
            scope TEXT PRIMARY KEY, seq INTEGER NOT NULL, hash TEXT NOT NULL, serial INTEGER NOT NULL,
            records INTEGER NOT NULL, digest TEXT NOT NULL
        ) WITHOUT ROWID""",
        earlier.begin_chains,
    ),
    (
        "CREATE TABLE archive (first INTEGER PRIMARY KEY, plans TEXT NOT NULL, body BLOB NOT NULL)",
        # Of each segment its hashes.
        """CREATE TABLE archived (
            first INTEGER PRIMARY KEY, last INTEGER NOT NULL, plans TEXT NOT NULL, body TEXT NOT NULL
        )""",
        "CREATE TABLE archive_end (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
        earlier.cover_archive,
    ),
)

VERSION = len(MIGRATIONS)
_MOVED = 1 << 16  # beside the version of a state that has moved: no older program takes it for a state


def version_of(connection: sqlite3.Connection) -> int | None:
    """The version of the state in the database; None when it holds something else, or nothing."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version) & ~_MOVED if application_id == APPLICATION_ID and version else None


def require(connection: sqlite3.Connection, path: Path) -> int:
    """The version of the state in `path`. Raises StoreError when it is not a state, or a newer program's."""
    version = version_of(connection)
    if version is None:
        restore = command("state", "restore")
        raise StoreError(
            f"{path} is not a state of this program",
            help=f"name another file with `state: sqlite:PATH`, or see `{restore}`",
            advice=(restore,),
        )
    if version > VERSION:
        raise StoreError(
            f"the state {path} was written by a newer reconciler"
            f" (its version is {version}, this one knows {VERSION})",
            help="use the newer reconciler",
        )
    return version


def initialise(connection: sqlite3.Connection, lineage: str, environment: str = "") -> None:
    """Make an empty database a state of the newest version, and of an environment."""
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # before there is a table
    use_wal(connection)
    with transaction(connection):
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        _migrate_from(connection, 0)
        new = checks.read(connection)
        new.lineage = new.trunk_hash = lineage
        checks.write(connection, new)
        if environment:
            environments.write(connection, lineage, environment)


def migrate(connection: sqlite3.Connection) -> None:
    """Bring an older state to the newest version, in one transaction."""
    with transaction(connection):
        # Read again: another process may have migrated while we waited for the transaction.
        _migrate_from(connection, version_of(connection) or 0)


def _migrate_from(connection: sqlite3.Connection, version: int) -> None:
    for migration in MIGRATIONS[version:]:
        for statement in migration:
            if isinstance(statement, str):
                connection.execute(statement)
            else:
                statement(connection)
    (before,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute(f"PRAGMA user_version = {VERSION | (before & _MOVED)}")


def mark_moved(connection: sqlite3.Connection, moved: bool) -> None:
    """In the caller's transaction."""
    connection.execute(f"PRAGMA user_version = {VERSION | _MOVED * moved}")
