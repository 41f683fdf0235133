"""The check values in `meta`: with them, a flipped bit or a missing row is told from what was written.

Records and journal rows carry digests of their own. Here stand how many journal rows there are, a sum over
the scopes' heads (`heads`), one digest for each small table, that of the fingerprint key, and one over all
of this. `version` counts the transactions. The file `<state>.seen` repeats it after each one, unsynced: a
state that is older than what was seen has lost commits, such as those behind a damaged page of the WAL.
"""

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from reconciler.state.sqlite.database import Damaged, transaction

LEASES = ("leases", "sqlite_sequence")
SMALL_TABLES = ("open_intents", "plans_run", "unclaimed", "half_moved", "facts", *LEASES)
_EVERY_COMMIT = frozenset({"open_intents", "unclaimed", "half_moved", "facts"})


@dataclass(slots=True)
class Checks:
    """What `meta` says. `rows`: of the journal; `serial`: the highest of any record; `key`: its SHA-256.

    `heads`: the sum over the scopes' heads (see `heads`), which changes with each commit. `trunk_*`: where
    each scope begins: at the lineage, or where the one chain and the one serial of an older program ended.
    """

    lineage: str
    version: int = 0
    rows: int = 0
    serial: int = 0
    heads: str = "0" * 64
    trunk_seq: int = 0
    trunk_hash: str = ""
    trunk_serial: int = 0
    key: str | None = None
    tables: dict[str, str] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, Any]:
        """All but the lineage, which has a row of its own."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "lineage"}

    @property
    def digest(self) -> str:
        return sha256({"lineage": self.lineage, **self.values})


@dataclass(frozen=True, slots=True)
class Seen:
    """The newest transaction that was acknowledged, as far as this file got to the disk."""

    version: int
    digest: str
    rows: int
    serial: int


def read(connection: sqlite3.Connection) -> Checks:
    """Raises Damaged when a value is not what was written."""
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    try:
        found = Checks(meta["lineage"], **json.loads(meta["checks"]))
        sound = found.digest == meta["digest"]
    except (KeyError, TypeError, ValueError):
        sound = False
    if not sound:
        raise Damaged("its lineage or check values are not what was written")
    return found


def write(connection: sqlite3.Connection, checks: Checks) -> None:
    """Store `checks`, in the caller's transaction."""
    rows = {
        "lineage": checks.lineage,
        "checks": json.dumps(checks.values),
        "digest": checks.digest,
    }
    connection.executemany("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", rows.items())


@contextmanager
def writing(connection: sqlite3.Connection, path: Path, tables: Iterable[str] = ()) -> Iterator[Checks]:
    """One transaction that changes the state at `path`; the block keeps up what it gets.

    `tables`: small ones that it may change, apart from those of every commit. They are checked
    before: a new digest must not cover up damage.
    """
    touched = _EVERY_COMMIT.union(tables)
    with transaction(connection):
        checks = read(connection)
        verify_tables(connection, checks, touched)
        yield checks
        checks.version += 1
        checks.tables |= {table: digest_of(connection, table) for table in touched}
        write(connection, checks)
    _tell_seen(path, checks)


def verify_tables(
    connection: sqlite3.Connection, checks: Checks, tables: Iterable[str] = SMALL_TABLES
) -> None:
    """Raises Damaged naming a small table that is not what was written."""
    for table in tables:
        if checks.tables.get(table) != digest_of(connection, table):
            raise Damaged(f"table {table} is not what was written")


def digest_of(connection: sqlite3.Connection, table: str) -> str:
    rows = connection.execute(f"SELECT * FROM {table}")  # noqa: S608 - our own names
    return hashlib.sha256(repr(sorted(rows, key=repr)).encode()).hexdigest()


def seen_path(path: Path) -> Path:
    return path.with_name(path.name + ".seen")


def seen(path: Path, lineage: str) -> Seen | None:
    """None when there is no such file, or not one of this state that was written whole."""
    try:
        found = json.loads(seen_path(path).read_bytes())
        digest = found.pop("check")
        if digest != sha256(found) or found.pop("lineage") != lineage:
            return None
        rows = found["rows"] if "rows" in found else found["head_seq"]  # an older program's name for it
        return Seen(found["version"], found["digest"], rows, found["serial"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def verify_seen(checks: Checks, newest: Seen | None) -> None:
    """Raises Damaged when commits that were acknowledged are missing."""
    if newest is None or checks.version > newest.version:
        return
    if checks.version < newest.version:
        lost = newest.version - checks.version
        changes = "change is" if lost == 1 else "changes are"
        raise Damaged(f"the last {lost} committed {changes} missing from the file")
    if checks.digest != newest.digest:
        raise Damaged("its newest change is not the one that was stored")


def _tell_seen(path: Path, checks: Checks) -> None:
    values: dict[str, Any] = {
        "version": checks.version,
        "digest": checks.digest,
        "rows": checks.rows,
        "serial": checks.serial,
        "lineage": checks.lineage,
    }
    text = json.dumps(values | {"check": sha256(values)}).ljust(400).encode()
    # Without it, damage is found by the digests alone; the commit itself is safe.
    with suppress(OSError):
        descriptor = os.open(seen_path(path), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.pwrite(descriptor, text, 0)
        finally:
            os.close(descriptor)


def tell_seen_anew(path: Path, checks: Checks) -> None:
    """After a restore: what was seen of the damaged state counts no more."""
    seen_path(path).unlink(missing_ok=True)
    _tell_seen(path, checks)


def sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
