"""The tables of the SQLite state. `older` reads files of older versions."""

import sqlite3
from pathlib import Path

from reconciler.core.advice import command
from reconciler.core.errors import StoreError
from reconciler.state.sqlite import checks, environments
from reconciler.state.sqlite.database import transaction, use_wal

APPLICATION_ID = 0x52636E63  # "Rcnc": tells our file from any other SQLite database

VERSION = 6
TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID",
    """CREATE TABLE records (
        kind TEXT NOT NULL, app TEXT NOT NULL, name TEXT NOT NULL, ordinal INTEGER NOT NULL,
        serial INTEGER NOT NULL, body TEXT NOT NULL, digest TEXT NOT NULL,
        PRIMARY KEY (kind, app, name, ordinal)
    ) WITHOUT ROWID""",
    # `row` counts what the file holds; `seq` counts within the chain of the scope.
    """CREATE TABLE journal (
        row INTEGER PRIMARY KEY, run TEXT NOT NULL, event TEXT NOT NULL, at TEXT NOT NULL,
        address TEXT, step TEXT NOT NULL, attempt INTEGER NOT NULL, data TEXT NOT NULL,
        hash TEXT NOT NULL, scope TEXT NOT NULL, seq INTEGER NOT NULL
    )""",
    "CREATE UNIQUE INDEX chains ON journal (scope, seq)",
    """CREATE TABLE heads (
        scope TEXT PRIMARY KEY, seq INTEGER NOT NULL, hash TEXT NOT NULL, serial INTEGER NOT NULL,
        records INTEGER NOT NULL, digest TEXT NOT NULL
    ) WITHOUT ROWID""",
    # What `load` needs of the journal, so that it never reads all of it.
    """CREATE TABLE open_intents (
        run TEXT NOT NULL, step TEXT NOT NULL, attempt INTEGER NOT NULL, row INTEGER NOT NULL,
        PRIMARY KEY (run, step, attempt)
    ) WITHOUT ROWID""",
    "CREATE TABLE plans_run (plan TEXT PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE unclaimed (id TEXT PRIMARY KEY, row INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE half_moved (source TEXT PRIMARY KEY, row INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    # Old rows of the journal, packed, and of each segment its hashes.
    "CREATE TABLE archive (first INTEGER PRIMARY KEY, plans TEXT NOT NULL, body BLOB NOT NULL)",
    """CREATE TABLE archived (
        first INTEGER PRIMARY KEY, last INTEGER NOT NULL, plans TEXT NOT NULL, body TEXT NOT NULL
    )""",
    "CREATE TABLE archive_end (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    # `number` is the scope's byte in the lock file: it never changes and is never used again. So this table
    # outlives a migration.
    """CREATE TABLE IF NOT EXISTS leases (
        number INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL UNIQUE,
        epoch INTEGER NOT NULL DEFAULT 0, holder TEXT NOT NULL DEFAULT '',
        since TEXT NOT NULL DEFAULT '', released INTEGER NOT NULL DEFAULT 1
    )""",
    "CREATE INDEX IF NOT EXISTS leases_held ON leases (scope, epoch) WHERE released = 0",
)


def version_of(connection: sqlite3.Connection) -> int | None:
    """The version of the state in the database; None when it holds something else, or nothing."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version) if application_id == APPLICATION_ID and version else None


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
        make(connection, lineage, environment)


def make(connection: sqlite3.Connection, lineage: str, environment: str) -> None:
    """The tables, in the caller's transaction."""
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    for statement in TABLES:
        connection.execute(statement)
    tables = {table: checks.digest_of(connection, table) for table in checks.SMALL_TABLES}
    checks.write(connection, checks.Checks(lineage, tables=tables))
    if environment:
        environments.write(connection, lineage, environment)
    connection.execute(f"PRAGMA user_version = {VERSION}")
