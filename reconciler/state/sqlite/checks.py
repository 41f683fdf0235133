"""The check values in `meta`: with them, a flipped bit or a missing row is told from what was written.

Records and journal rows carry digests of their own. Here stand how many records there are, where the
journal ends, one digest for each small table, that of the fingerprint key, and one over all of this.
`version` counts the transactions. The file `<state>.seen` repeats it after each one, unsynced: a state
that is older than what was seen has lost commits, such as those behind a damaged page of the WAL.
"""

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reconciler.state.sqlite.database import Damaged, transaction

LEASES = ("leases", "sqlite_sequence")
SMALL_TABLES = ("open_intents", "plans_run", "unclaimed", "facts", *LEASES)
_EVERY_COMMIT = frozenset({"open_intents", "unclaimed", "facts"})


@dataclass(slots=True)
class Checks:
    """What `meta` says. `head` is the journal's newest row: seq and hash; `key` the key's SHA-256."""

    lineage: str
    serial: int = 0
    version: int = 0
    records: int = 0
    head_seq: int = 0
    head_hash: str = ""
    key: str | None = None
    tables: dict[str, str] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, Any]:
        """All but lineage and serial, which have rows of their own."""
        return {
            "version": self.version,
            "records": self.records,
            "head_seq": self.head_seq,
            "head_hash": self.head_hash,
            "key": self.key,
            "tables": self.tables,
        }

    @property
    def content(self) -> str:
        """The version of all but the leases: a removal lowers the count, all else raises the rest."""
        return f"{self.head_seq}:{self.head_hash}:{self.serial}:{self.records}"

    @property
    def digest(self) -> str:
        return _sha256({"lineage": self.lineage, "serial": self.serial, **self.values})


@dataclass(frozen=True, slots=True)
class Seen:
    """The newest transaction that was acknowledged, as far as this file got to the disk."""

    version: int
    digest: str
    head_seq: int
    serial: int


def read(connection: sqlite3.Connection) -> Checks:
    """Raises Damaged when a value is not what was written."""
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    try:
        found = Checks(meta["lineage"], meta["serial"], **json.loads(meta["checks"]))
        sound = found.digest == meta["digest"]
    except (KeyError, TypeError, ValueError):
        sound = False
    if not sound:
        raise Damaged("its lineage, serial or check values are not what was written")
    return found


def write(connection: sqlite3.Connection, checks: Checks) -> None:
    """Store `checks`, in the caller's transaction."""
    rows = {
        "lineage": checks.lineage,
        "serial": checks.serial,
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


def first(connection: sqlite3.Connection) -> None:
    """Bring check values into a state that has none: what it holds now is taken as it is."""
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    newest = connection.execute("SELECT seq, hash FROM journal ORDER BY seq DESC LIMIT 1").fetchone()
    (records,) = connection.execute("SELECT count(*) FROM records").fetchone()
    lineage = meta.get("lineage", "")
    head_seq, head_hash = newest or (0, lineage)
    tables = {
        table: digest_of(connection, table) for table in ("open_intents", "plans_run", "unclaimed", *LEASES)
    }
    write(connection, Checks(lineage, meta["serial"], 0, records, head_seq, head_hash, None, tables))


def cover_facts(connection: sqlite3.Connection) -> None:
    """Bring the table `facts` under the check values of a state whose values are sound."""
    known = read(connection)
    known.version += 1  # what was seen of the state before is older
    known.tables["facts"] = digest_of(connection, "facts")
    write(connection, known)


def seen_path(path: Path) -> Path:
    return path.with_name(path.name + ".seen")


def seen(path: Path, lineage: str) -> Seen | None:
    """None when there is no such file, or not one of this state that was written whole."""
    try:
        found = json.loads(seen_path(path).read_bytes())
        digest = found.pop("check")
        if digest != _sha256(found) or found.pop("lineage") != lineage:
            return None
        return Seen(**found)
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
        "head_seq": checks.head_seq,
        "serial": checks.serial,
        "lineage": checks.lineage,
    }
    text = json.dumps(values | {"check": _sha256(values)}).ljust(400).encode()
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


def _sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
