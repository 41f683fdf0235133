"""The tables of a state in a file. `older` reads files of older versions."""

import sqlite3
from pathlib import Path

from reconciler.core.advice import command
from reconciler.core.errors import StoreError

APPLICATION_ID = 0x52636E63  # "Rcnc": tells our file from any other SQLite database

VERSION = 7
# `entries` and `serial`: of the head of a scope, how many journal entries and serials it has had. Its first
# line is an object, the others are `lines`.
# `changes` counts what was written: an older copy of the file has fewer (`seen`).
_STATEMENTS = (
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {VERSION}",
    """CREATE TABLE objects (
        key TEXT PRIMARY KEY, tag TEXT NOT NULL, entries INTEGER NOT NULL, serial INTEGER NOT NULL,
        body BLOB NOT NULL
    )""",
    """CREATE TABLE lines (
        head TEXT NOT NULL, number INTEGER NOT NULL, digest BLOB NOT NULL, line BLOB NOT NULL,
        PRIMARY KEY (head, number)
    ) WITHOUT ROWID""",
    "CREATE TABLE changes (number INTEGER NOT NULL, newest TEXT, entries INTEGER NOT NULL, serial INTEGER)",
    "INSERT INTO changes VALUES (0, '', 0, 0)",
    """CREATE TRIGGER created AFTER INSERT ON objects BEGIN UPDATE changes SET number = number + 1,
        newest = new.tag, entries = entries + new.entries, serial = max(serial, new.serial); END""",
    """CREATE TRIGGER replaced AFTER UPDATE ON objects BEGIN UPDATE changes SET number = number + 1,
        newest = new.tag, entries = entries + new.entries - old.entries, serial = max(serial, new.serial);
        END""",
    """CREATE TRIGGER deleted AFTER DELETE ON objects BEGIN UPDATE changes SET number = number + 1,
        newest = old.tag, entries = entries - old.entries; END""",
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


def make(connection: sqlite3.Connection) -> None:
    """Make the tables of the newest version in an empty database."""
    for statement in _STATEMENTS:
        connection.execute(statement)
