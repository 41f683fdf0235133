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
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from reconciler.state.sqlite import signed
from reconciler.state.sqlite.database import Damaged, Moved, transaction

MOVED_TO = "moved_to"  # the row of `meta` that says where the state is now
LEASES = ("leases", "sqlite_sequence")
SMALL_TABLES = (
    "open_intents",
    "plans_run",
    "unclaimed",
    "half_moved",
    "facts",
    "archived",
    "archive_end",
    *LEASES,
)
_EVERY_COMMIT = frozenset({"open_intents", "unclaimed", "half_moved", "facts"})


@dataclass(slots=True)
class Checks:
    """What `meta` says. `rows`: of the journal; `serial`: the highest of any record; `key`: its SHA-256.

    `heads`: the sum over the scopes' heads (see `heads`), which changes with each commit. `least_serial`:
    after which the serials of a scope begin, so that a state that lost records never uses theirs again.
    """

    lineage: str
    version: int = 0
    rows: int = 0
    serial: int = 0
    heads: str = "0" * 64
    least_serial: int = 0
    key: str | None = None
    tables: dict[str, str] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, Any]:
        """All but the lineage, which has a row of its own."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "lineage"}

    @property
    def digest(self) -> str:
        return sha256({"lineage": self.lineage, **self.values})


class Seen(Struct, frozen=True):
    """The newest transaction that was acknowledged, as far as `file` got to the disk."""

    file: Path
    version: int
    digest: str
    rows: int
    serial: int


def read(connection: sqlite3.Connection, *, moved: bool = False) -> Checks:
    """Raises Damaged when a value is not what was written, and Moved for a state that has, unless `moved`."""
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    try:
        found = Checks(meta["lineage"], **json.loads(meta["checks"]))
        sound = _digest(meta["lineage"], meta["checks"]) == meta["digest"]
    except (KeyError, TypeError, ValueError):
        sound = False
    if not sound:
        raise Damaged("its lineage or check values are not what was written")
    if not moved and MOVED_TO in meta:
        raise Moved(signed.read(connection, found.lineage, MOVED_TO))
    return found


@lru_cache(maxsize=8)
def _digest(lineage: str, values: str) -> str:
    """Of check values as they are stored: most are read again, by the commit that follows."""
    return Checks(lineage, **json.loads(values)).digest


def write(connection: sqlite3.Connection, checks: Checks) -> str:
    """Store `checks`, in the caller's transaction. Returns their digest."""
    values = json.dumps(checks.values)
    digest = _digest(checks.lineage, values)
    rows = {"lineage": checks.lineage, "checks": values, "digest": digest}
    connection.executemany("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", rows.items())
    return digest


@contextmanager
def writing(
    connection: sqlite3.Connection, path: Path, tables: Iterable[str] = (), *, moved: bool = False
) -> Iterator[Checks]:
    """One transaction that changes the state at `path`; the block keeps up what it gets.

    `tables`: small ones that it may change, apart from those of every commit. They are checked
    before: a new digest must not cover up damage. `moved`: see `read`.
    """
    touched = _EVERY_COMMIT.union(tables)
    with transaction(connection):
        checks = read(connection, moved=moved)
        verify_tables(connection, checks, touched)
        yield checks
        checks.version += 1
        checks.tables |= {table: digest_of(connection, table) for table in touched}
        digest = write(connection, checks)
    _tell_seen(path, checks, digest)


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


@lru_cache(maxsize=8)
def seen_path(path: Path) -> Path:
    return path.with_name(path.name + ".seen")


def seen(path: Path, lineage: str) -> Seen | None:
    """What the file beside the state at `path` tells of it; None where none was written whole."""
    file = seen_path(path)
    try:
        found = json.loads(file.read_bytes())
        digest = found.pop("check")
        if digest != sha256(found) or found.pop("lineage") != lineage:
            return None
        rows = found["rows"] if "rows" in found else found["head_seq"]  # an older program's name for it
        return Seen(file, found["version"], found["digest"], rows, found["serial"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def verify_seen(checks: Checks, seen: Seen | None) -> None:
    """Raises Damaged when commits that were acknowledged are missing."""
    if seen is None:
        return
    if checks.version < seen.version:
        lost = seen.version - checks.version
        changes = "change is" if lost == 1 else "changes are"
        raise Damaged(
            f"the last {lost} committed {changes} missing from the file ({seen.file} lists more changes)"
        )
    if checks.version == seen.version and checks.digest != seen.digest:
        raise Damaged(f"its newest change is not the one that was stored ({seen.file} lists another one)")


def _tell_seen(path: Path, checks: Checks, digest: str) -> None:
    values: dict[str, Any] = {
        "version": checks.version,
        "digest": digest,
        "rows": checks.rows,
        "serial": checks.serial,
        "lineage": checks.lineage,
    }
    text = json.dumps(values | {"check": sha256(values)}).ljust(400).encode()
    # Without it, damage is found by the digests alone; the commit itself is safe.
    with suppress(OSError):
        _replace(seen_path(path), text)


def _replace(file: Path, text: bytes) -> None:
    how = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(file, how, 0o600)
    try:
        os.pwrite(descriptor, text, 0)
    finally:
        os.close(descriptor)


def tell_seen_anew(path: Path, checks: Checks) -> None:
    """After a restore: what was seen of the damaged state counts no more."""
    with suppress(OSError):
        seen_path(path).unlink(missing_ok=True)
    _tell_seen(path, checks, checks.digest)


def sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
