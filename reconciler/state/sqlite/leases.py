"""The leases in SQLite: who may change a scope, at which epoch.

Exclusion is by `locks`, which die with their process; the rows remember epochs, which only
grow, so that a holder whose lock was lost cannot write, and holders, so that others can name them.
"""

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from reconciler.core.errors import Locked
from reconciler.state.sqlite import locks
from reconciler.state.sqlite.checks import LEASES, writing
from reconciler.state.sqlite.files import lock_path
from reconciler.state.store import Lease, no_longer_ours

UNNAMED = "another process"


def take(
    connection: sqlite3.Connection, path: Path, scopes: Sequence[str], holder: str, now: datetime
) -> tuple[Lease, dict[str, int]]:
    """All `scopes` or none, with each scope's locked byte. Raises Locked naming the first one held."""
    numbers = _numbers(connection, path, scopes)
    with _locked(connection, lock_path(path), numbers, now), writing(connection, path, LEASES):
        epochs = {}
        for scope, number in numbers.items():
            (epochs[scope],) = connection.execute(
                """UPDATE leases SET epoch = epoch + 1, holder = ?, since = ?, released = 0
                WHERE number = ? RETURNING epoch""",
                (holder, now.isoformat(), number),
            ).fetchone()
        return Lease(holder, epochs), numbers


def check(connection: sqlite3.Connection, lease: Lease) -> None:
    """Raises StoreError when one of the lease's scopes was released or taken by another."""
    query = "SELECT 1 FROM leases WHERE released = 0 AND scope = ? AND epoch = ?"
    for ours in lease.epochs.items():
        if connection.execute(query, ours).fetchone() is None:
            raise no_longer_ours(ours[0])


def mark_released(connection: sqlite3.Connection, path: Path, lease: Lease) -> None:
    with writing(connection, path, LEASES):
        connection.executemany(
            "UPDATE leases SET released = 1 WHERE scope = ? AND epoch = ?", lease.epochs.items()
        )


def replace(connection: sqlite3.Connection, scope: str) -> None:
    """Give the scope another byte and a higher epoch, in the caller's transaction.

    Who holds the old byte, or took an earlier epoch, can then neither write nor keep others out.
    """
    connection.execute(
        """INSERT OR REPLACE INTO leases (number, scope, epoch, holder, since)
        SELECT (SELECT seq + 1 FROM sqlite_sequence WHERE name = 'leases'), scope, epoch + 1, holder, since
        FROM leases WHERE scope = ?""",
        (scope,),
    )


def scopes(connection: sqlite3.Connection) -> list[str]:
    """All that anybody ever took."""
    return [scope for (scope,) in connection.execute("SELECT scope FROM leases")]


def epochs(connection: sqlite3.Connection) -> dict[str, int]:
    """By scope, of those that were ever taken."""
    return dict(connection.execute("SELECT scope, epoch FROM leases WHERE epoch > 0"))


def holder_of(connection: sqlite3.Connection, scope: str) -> tuple[int, str, str] | None:
    """The scope's byte, its last holder and since when; None for a scope that no run has ever locked."""
    found: tuple[int, str, str] | None = connection.execute(
        "SELECT number, holder, since FROM leases WHERE scope = ?", (scope,)
    ).fetchone()
    return found


def holders(
    connection: sqlite3.Connection, lock_file: Path, scopes: Collection[str], now: datetime
) -> dict[str, Locked]:
    """By scope, who has it now: of `scopes`, those whose byte a living process has locked."""
    found = {scope: holder_of(connection, scope) for scope in scopes}
    return {
        scope: locked_by(connection, scope, now)
        for scope, known in found.items()
        if known is not None and locks.is_locked(lock_file, known[0])
    }


def _numbers(connection: sqlite3.Connection, path: Path, scopes: Sequence[str]) -> dict[str, int]:
    """Each scope's byte in the lock file, in the order of `scopes`; new ones are stored."""
    query = "SELECT number FROM leases WHERE scope = ?"
    found = {scope: connection.execute(query, (scope,)).fetchone() for scope in scopes}
    missing = [scope for scope, row in found.items() if row is None]
    if missing:
        with writing(connection, path, LEASES):
            for scope in missing:
                connection.execute("INSERT OR IGNORE INTO leases (scope) VALUES (?)", (scope,))
                found[scope] = connection.execute(query, (scope,)).fetchone()
    return {scope: row[0] for scope, row in found.items()}


@contextmanager
def _locked(
    connection: sqlite3.Connection, lock_file: Path, numbers: Mapping[str, int], now: datetime
) -> Iterator[None]:
    """Hold the locks of all `numbers`, and keep them when the block succeeds."""
    taken: list[int] = []
    try:
        for scope, number in numbers.items():
            if not locks.try_lock(lock_file, number):
                raise locked_by(connection, scope, now)
            taken.append(number)
        yield
    except BaseException:
        for number in taken:
            locks.unlock(lock_file, number)
        raise


def locked_by(connection: sqlite3.Connection, scope: str, now: datetime) -> Locked:
    holder, since, released = connection.execute(
        "SELECT holder, since, released FROM leases WHERE scope = ?", (scope,)
    ).fetchone()
    if released:  # it has the lock and is just about to write its name
        return Locked(scope, UNNAMED, 0)
    return Locked(scope, holder, max(0, (now - datetime.fromisoformat(since)).total_seconds()))
