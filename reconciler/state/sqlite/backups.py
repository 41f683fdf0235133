"""Copies of the state in `<state>.backups/`: complete and verified, or absent; the newest few are kept."""

import hashlib
import os
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from reconciler.core.advice import command
from reconciler.core.errors import StoreError
from reconciler.state.durable import sync, sync_directory
from reconciler.state.sqlite import checks, files, heads, journal, older, records, schema
from reconciler.state.sqlite.database import (
    Damaged,
    check_all_pages,
    connect_read_only,
    connect_without_a_trace,
    explained,
)
from reconciler.state.store import Backups

KEPT = 5
_AT = "%Y%m%dT%H%M%SZ"


class Backup(Struct, frozen=True):
    """A file, with its key beside it. `at`: when it was made; `version`: its transaction."""

    path: Path
    at: datetime
    version: int


def folder(path: Path) -> Path:
    return path.with_name(path.name + ".backups")


def all_of(path: Path) -> list[Backup]:
    """The backups of the state at `path`, newest first; not verified."""
    found = []
    for file in folder(path).glob("*.db"):
        at, _, version = file.stem.partition("-")
        try:
            found.append(Backup(file, datetime.strptime(at, _AT).replace(tzinfo=UTC), int(version)))
        except ValueError:
            continue
    return sorted(found, key=lambda backup: backup.version, reverse=True)


def newest_good(path: Path) -> Backup | None:
    for backup in all_of(path):
        try:
            with explained(backup.path):
                verify(backup.path)
        except StoreError:
            continue
        return backup
    return None


def known(path: Path) -> Backups:
    """What there is to go back to from the state at `path`."""
    good = newest_good(path)
    found = [each.path for each in all_of(path) if good is None or each.version > good.version]
    return Backups(good.at if good is not None else None, tuple(found))


def make(connection: sqlite3.Connection, path: Path, at: datetime, target: Path | None = None) -> Path:
    """Copy what `connection` holds to `target`, which must not exist, or among the kept ones.

    Raises StoreError, OSError or sqlite3.Error, and leaves nothing behind.
    """
    current = checks.read(connection)
    if target is None:
        folder(path).mkdir(mode=0o700, exist_ok=True)
        target = folder(path) / f"{at:{_AT}}-{current.version:08d}.db"
        if target.exists():
            verify(target)
            return target  # nothing happened since
    if target.exists():
        raise StoreError(f"{target} exists already", help="name a file that does not exist")
    _copy(connection, path, target)
    return target


def _copy(connection: sqlite3.Connection, path: Path, target: Path) -> None:
    """All of it, verified, or nothing; with the key of the state at `path` beside it."""
    descriptor, name = tempfile.mkstemp(prefix=f"{target.name}.new-", dir=target.parent)  # mode 0600
    os.close(descriptor)
    new = Path(name)
    try:
        with closing(sqlite3.connect(new, isolation_level=None)) as copy:
            copy.execute("PRAGMA synchronous = OFF")  # synced once, when it is whole
            connection.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file that stands for itself
        verify(new)
        sync(new)
        key = files.read_key(files.key_path(path))
        if key is not None:
            files.create_key(files.key_path(target), key)
        target.hardlink_to(new)
        sync_directory(target.parent)
    finally:
        new.unlink()


def make_before_migration(connection: sqlite3.Connection, path: Path, at: datetime, version: int) -> Path:
    """Copy the state as its older `version` has it, for a program that knows no other. It is never pruned.

    Raises StoreError, OSError or sqlite3.Error, and leaves nothing behind.
    """
    folder(path).mkdir(mode=0o700, exist_ok=True)
    target = folder(path) / f"version-{version}-{at:{_AT}}.db"
    with suppress(FileExistsError):  # another process made it at the same moment
        if not target.exists():
            _copy(connection, path, target)
    return target


def migrate(connection: sqlite3.Connection, path: Path, at: datetime) -> str:
    """Bring the state at `path` to the newest version, once it was copied. Raises as the copying does.

    What was done comes back, in words; "" for nothing.
    """
    version = schema.require(connection, path)
    if version == schema.VERSION:
        return ""
    copy = make_before_migration(connection, path, at, version)
    older.migrate(connection)
    _let_it_shrink(connection)
    return (
        f"the state {path} was migrated from version {version} to {schema.VERSION}; "
        f"a copy of version {version} is {copy}: to go back to an older program, put it and {copy.name}.key "
        f"in the place of {path.name} and {path.name}.key, and remove {path.name}.seen: what was recorded "
        "since is unknown to it"
    )


def _let_it_shrink(connection: sqlite3.Connection) -> None:
    """Let a file that an older program made give back the space of what is packed (`archive.extend`).

    All of it is written anew, once; where there is no room for that, the space is used for newer rows.
    """
    (mode,) = connection.execute("PRAGMA auto_vacuum").fetchone()
    if not mode:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        with suppress(sqlite3.OperationalError):
            connection.execute("VACUUM")


def migrated_copy(path: Path, tell: Callable[[str], None]) -> sqlite3.Connection:
    """A connection to the state at `path`, or to a copy in memory that has the newest version.

    No file changes; `tell` gets a line about what remains to be done. Raises StoreError or sqlite3.Error.
    """
    connection = connect_without_a_trace(path)
    try:
        version = schema.require(connection, path)
        if version == schema.VERSION:
            return connection
        apply, migrate = command("apply"), command("state", "migrate")
        tell(
            f"the state has version {version}, of an older program: `{apply}` or `{migrate}` brings it to "
            f"version {schema.VERSION}"
        )
        copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        connection.backup(copy)
    except BaseException:
        connection.close()
        raise
    connection.close()
    older.migrate(copy)
    verify_all(copy)
    return copy


def prune(path: Path) -> None:
    """Drop all but the newest."""
    for backup in all_of(path)[KEPT:]:
        backup.path.unlink(missing_ok=True)
        files.key_path(backup.path).unlink(missing_ok=True)


def verify(file: Path) -> None:
    """Read all of a backup. Raises Damaged, StoreError or sqlite3.Error when it is not good."""
    with closing(connect_read_only(file)) as connection:
        if schema.require(connection, file) == schema.VERSION:
            verify_all(connection, whole=False)
            return
        # Of an older version: what it becomes is verified, beside the file.
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as copy:
            connection.backup(copy)
            older.migrate(copy)
            verify_all(copy)


def verify_all(connection: sqlite3.Connection, *, whole: bool = True) -> checks.Checks:
    """Read everything in a state of the newest version. Raises Damaged naming what was not written so.

    Not `whole`: see `journal.verify`.
    """
    check_all_pages(connection)
    try:
        current = checks.read(connection)
        checks.verify_tables(connection, current)
        ends = heads.read(connection, current)
        records.verify(connection, heads.count(ends))
        journal.verify(connection, current, ends, whole=whole)
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged("a row contains data that was never written there") from error
    return current


def key_digest(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()
