"""The database of a state: its tables, connections and transactions, and what its errors mean."""

import errno
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from reconciler.core.advice import Command, command
from reconciler.core.errors import StoreError
from reconciler.state.log.bucket import restoring_a_file
from reconciler.state.log.damage import Damaged, damaged

# How long a writer waits for another process's transaction, which lasts one commit.
_BUSY_TIMEOUT_S = 30
_AGAIN_S = 0.02  # how often a change is tried again for which SQLite itself does not wait


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


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection to an existing file, for any thread, but one at a time. Changes nothing in the file.

    `read_only`: it makes no file either, such as a WAL.
    """
    how = "mode=rw"
    if read_only:
        has_wal = path.with_name(path.name + "-wal").exists()
        how = "mode=ro&readonly_shm=1" if has_wal else "mode=ro&immutable=1"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{how}",
        uri=True,
        timeout=_BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def use_wal(connection: sqlite3.Connection) -> None:
    """Let readers and one writer work side by side; with `synchronous = FULL` each commit is one fsync.

    SQLite itself waits for other processes, only not in this change, where two that make a state at the same
    moment meet.
    """
    ends_s = time.monotonic() + _BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > ends_s:
                raise
            time.sleep(_AGAIN_S)
        else:
            return


@contextmanager
def transaction(
    connection: sqlite3.Connection, mode: Literal["IMMEDIATE", "DEFERRED"] = "IMMEDIATE"
) -> Iterator[None]:
    """All or nothing. DEFERRED reads one moment of the database and lets others write."""
    connection.execute(f"BEGIN {mode}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk makes SQLite roll back by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def check_all_pages(connection: sqlite3.Connection) -> None:
    """Raises Damaged when any page is: a flipped bit in one can hide rows from every query."""
    for (problem,) in connection.execute("PRAGMA integrity_check(1)"):
        if problem != "ok":
            raise Damaged(str(problem))


WayOut = Callable[[], tuple[str, Command]]  # what to do, and the command that stands in it


@contextmanager
def explained(path: Path, way_out: WayOut = restoring_a_file) -> Iterator[None]:
    """Turn what SQLite and the file system raise into a StoreError that names the file and the way out.

    `way_out`: what to do about a damaged file.
    """
    try:
        yield
    except Damaged as error:
        raise damaged(str(path), str(error), way_out()) from error
    except UnicodeDecodeError as error:
        # SQLite's own message, or a column, repeats what a flipped bit made of the text.
        raise damaged(str(path), "it contains bytes that are not text", way_out()) from error
    except (sqlite3.Error, OSError) as error:
        raise _explain(path, error, way_out) from error


def _explain(path: Path, error: sqlite3.Error | OSError, way_out: WayOut) -> StoreError:
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith("SQLITE_NOTADB"):
        text, restore = way_out()
        help = f"if it should be the state: {text}; otherwise name another with `state: sqlite:PATH`"
        return StoreError(f"{path} is not a database", help=help, advice=(restore,))
    if name.startswith("SQLITE_CORRUPT"):
        return damaged(str(path), "SQLite cannot read it", way_out())
    if name.startswith("SQLITE_FULL") or getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
        return StoreError(f"no space left for the state {path}", help="free some space and run again")
    if name.startswith("SQLITE_BUSY"):
        return StoreError(
            f"another process has kept the state {path} busy for more than {_BUSY_TIMEOUT_S} s",
            help="stop that process, and run again",
        )
    if isinstance(error, sqlite3.Error) and not name:
        # Raised by Python's own conversion, whose message repeats the stored text.
        return damaged(str(path), "a column contains data that was never written there", way_out())
    return StoreError(
        f"the state {path} cannot be read or written: {error}",
        help="check the file, its directory, their permissions and the free space",
    )
