"""Copies of the state in `<state>.backups/`: complete and verified, or absent; the newest few are kept."""

import sqlite3
from contextlib import AbstractContextManager, closing, suppress
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from reconciler.core.advice import Command, command
from reconciler.core.errors import StoreError
from reconciler.state.places.sqlite import database, files, older, seen, whole
from reconciler.state.places.sqlite.database import explained
from reconciler.state.store import Backups

KEPT = 5
_AT = "%Y%m%dT%H%M%SZ"


class Backup(Struct, frozen=True):
    """A file. `at`: when it was made; `version`: its newest change."""

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
    """The newest backup that is what was written; None where there is none."""
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
    newer = [backup.path for backup in all_of(path) if good is None or backup.version > good.version]
    return Backups(good.at if good is not None else None, tuple(newer))


def way_out(path: Path) -> tuple[str, Command]:
    """What to do about damage: the newest good backup, and the command in the text that restores it."""
    backup = newest_good(path)
    if backup is None:
        bring = command("state", "restore", "FILE")
        return (
            "no good backup was found beside it: keep the file; if you have a backup elsewhere, run "
            f"`{bring}`",
            bring,
        )
    bring = command("state", "restore")
    made = f"{backup.at:%Y-%m-%d %H:%M:%S} UTC"
    text = (
        f"the newest good backup is from {made}; `{bring}` restores it,"
        " and adds everything that the damaged file still contains"
    )
    return text, bring


def make(connection: sqlite3.Connection, path: Path, at: datetime, target: Path | None = None) -> Path:
    """Copy the state behind `connection` to `target`, which must not exist, or to the backups next to it.

    Raises StoreError, OSError or sqlite3.Error, and leaves nothing behind.
    """
    if target is None:
        folder(path).mkdir(mode=0o700, exist_ok=True)
        target = folder(path) / f"{at:{_AT}}-{seen.of(connection).version:08d}.db"
        if target.exists():
            verify(target)
            return target  # nothing happened since
    if target.exists():
        raise StoreError(f"{target} exists already", help="name a file that does not exist")
    _copy(connection, path, target)
    return target


def _copy(connection: sqlite3.Connection, path: Path, target: Path) -> None:
    """All of it, verified, or nothing; next to it the key of the state at `path`."""

    def fill(new: Path) -> None:
        with closing(sqlite3.connect(new, isolation_level=None)) as copy:
            copy.execute("PRAGMA synchronous = OFF")  # synced once, when it is whole
            connection.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file that stands for itself
        verify(new)
        if (key := files.read_key(path, sealed=True)) is not None:
            files.create_key(target, key)

    files.create(target, fill)


def migrate(connection: sqlite3.Connection, path: Path, at: datetime) -> str:
    """Bring the state at `path` to the newest version, once it was copied. Raises as the copying does.

    What was done comes back, in words; "" for nothing.
    """
    version = database.require(connection, path)
    if version == database.VERSION:
        return ""
    folder(path).mkdir(mode=0o700, exist_ok=True)
    copy = folder(path) / f"version-{version}-{at:{_AT}}.db"  # which is never pruned
    with suppress(FileExistsError):  # another process made it at the same moment
        if not copy.exists():
            _copy(connection, path, copy)
    older.migrate(connection)
    with suppress(sqlite3.OperationalError):  # where there is no room, its pages are used again
        connection.execute("VACUUM")
    return (
        f"the state {path} was migrated from version {version} to {database.VERSION}; "
        f"a copy of version {version} is {copy}: to go back to an older program, put it and {copy.name}.key "
        f"in the place of {path.name} and {path.name}.key, and remove {path.name}.seen: what was recorded "
        "since is unknown to it"
    )


def prune(path: Path) -> None:
    """Drop all but the newest."""
    for backup in all_of(path)[KEPT:]:
        backup.path.unlink(missing_ok=True)
        files.key_path(backup.path).unlink(missing_ok=True)


def verify(file: Path) -> None:
    """Read all of a backup. Raises Damaged, StoreError or sqlite3.Error when it is not good."""
    with reading(file) as connection:
        whole.verify(connection)


def reading(file: Path) -> AbstractContextManager[sqlite3.Connection]:
    """A connection to a file that nobody writes to, or to a copy in memory where its version is older."""
    return closing(older.newest(database.connect(file, read_only=True), file))
