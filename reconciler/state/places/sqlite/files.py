"""The files of a SQLite state: `state.db`, and beside it `state.db.lock` and `state.db.seen`.

New files appear complete or not at all, readable by their owner only; SQLite gives
its `-wal` and `-shm` the permissions of the database.
"""

import os
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from functools import lru_cache
from pathlib import Path

from reconciler.core.advice import command
from reconciler.core.errors import StoreError
from reconciler.state.durable import make_private, sync, sync_directory
from reconciler.state.places.sqlite import database

_RESTORE = command("state", "restore")


def state_exists(path: Path) -> bool:
    """Raises StoreError when only the rest of a state is there: it holds commits that must not be lost."""
    if path.exists():
        return True
    wal = beside(path, "-wal")
    if wal.exists():
        raise StoreError(
            f"the state {path} is missing, but {wal} with its newest changes still exists",
            help=f"put {path.name} back, or remove {wal.name} to start without a state",
        )
    backups = beside(path, ".backups")
    if any(backups.glob("*.db")):
        raise StoreError(
            f"the state {path} is missing, but its backups in {backups} still exist",
            help=f"`{_RESTORE}` restores the newest good one; to start without a state, move the backups "
            "away",
            advice=(_RESTORE,),
        )
    return False


def traces_of(path: Path) -> list[Path]:
    """What an older state has left beside it."""
    left = [key_path(path), spool_path(path), seen_path(path)]
    return [each for each in left if each.exists()] + sorted(path.parent.glob(f"{path.name}.damaged-*"))


def create_state(path: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Create the directory (0700) and a state that `fill` makes of an empty database.

    Does nothing when another process was faster.
    """
    make_private(path.parent)
    descriptor, name = tempfile.mkstemp(prefix=f"{path.name}.new-", dir=path.parent)  # mode 0600
    os.close(descriptor)
    new = Path(name)
    try:
        with closing(database.connect(new)) as connection:
            fill(connection)
        sync(new)
        with suppress(FileExistsError):
            # A link, not a rename: it never replaces what another process has created meanwhile.
            path.hardlink_to(new)
        sync_directory(path.parent)
    finally:
        for leftover in (new, beside(new, "-journal")):
            leftover.unlink(missing_ok=True)


def key_path(path: Path) -> Path:
    """Where an older version of the program kept the key."""
    return beside(path, ".key")


def seen_path(path: Path) -> Path:
    return beside(path, ".seen")


def spool_path(path: Path) -> Path:
    return beside(path, ".spool")


def lock_path(path: Path) -> Path:
    """Resolved, so that two spellings of one state's path exclude each other."""
    return beside(path.resolve(), ".lock")


@lru_cache(maxsize=64)
def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
