"""A whole SQLite state as `Contents`, and back; and the mark of one that has moved away."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path

from reconciler.core.errors import StoreError
from reconciler.core.model import StateRecord
from reconciler.state import rules
from reconciler.state.codec import decode_record
from reconciler.state.contents import Contents, Head, Row, has_changed, is_there, same
from reconciler.state.sqlite import (
    checks,
    environments,
    heads,
    journal,
    leases,
    records,
    schema,
    signed,
)
from reconciler.state.sqlite.checks import MOVED_TO, Checks
from reconciler.state.sqlite.database import connect


def export(connection: sqlite3.Connection, key: bytes | None) -> Contents:
    """All of it, also of a state that has moved. In the caller's transaction."""
    current = checks.read(connection, moved=True)
    rows = (
        Row(scope, seq, (run, event, at, address, step, attempt, data.decode()), hash)
        for run, event, at, address, step, attempt, data, hash, seq, scope, _ in journal.export(connection)
    )
    begin = heads.Head(0, current.lineage, current.least_serial)
    return contents_of(connection, current.lineage, key or b"", rows, heads.read(connection, current), begin)


def contents_of(
    connection: sqlite3.Connection,
    lineage: str,
    key: bytes,
    rows: Iterable[Row],
    ends: Mapping[str, heads.Head],
    begin: heads.Head,
) -> Contents:
    """With these `rows`, and all else as the tables say. `begin`: of scopes that were only leased."""
    epochs = leases.epochs(connection)
    known = {scope: ends.get(scope, begin) for scope in (*ends, *epochs)}
    return Contents(
        lineage,
        key,
        environments.read(connection, lineage),
        tuple(rows),
        records.bodies(connection),
        {scope: Head(end.seq, end.hash, end.serial, epochs.get(scope, 0)) for scope, end in known.items()},
        signed.read(connection, lineage, MOVED_TO),
    )


def fill(connection: sqlite3.Connection, contents: Contents, version: int, key: str | None) -> None:
    """Bring `contents` into empty tables, as transaction `version`, in the caller's transaction.

    `key`: the digest of the fingerprint key, where it is known. A scope keeps its row in the table `leases`,
    where it has one: its byte in the lock file may be locked.
    """
    current = checks.read(connection)
    current.version, current.key = version, key
    _fill_journal(connection, current, contents)
    _fill_scopes(connection, current, contents)
    current.tables = {table: checks.digest_of(connection, table) for table in checks.SMALL_TABLES}
    checks.write(connection, current)


def _fill_journal(connection: sqlite3.Connection, current: Checks, contents: Contents) -> None:
    for number, row in enumerate(contents.rows, 1):
        connection.execute(
            "INSERT INTO journal VALUES (?,?,?,?,?,?,?,?,?,?,?)",
            (number, *row.columns, row.hash, row.scope, row.seq),
        )
        journal.keep_up(connection, rules.effect_of_row(row.columns), number)
    current.rows = len(contents.rows)


def _fill_scopes(connection: sqlite3.Connection, current: Checks, contents: Contents) -> None:
    of_scope: dict[str, list[tuple[StateRecord, str]]] = defaultdict(list)
    for address, body in contents.records.items():
        record = decode_record(address, body.serial, body.text.encode())
        of_scope[record.scope].append((record, body.text))
    for scope, end in contents.heads.items():
        with heads.changing(connection, current, scope) as head:
            head.seq, head.hash, head.serial = end.seq, end.hash, end.serial
            for record, text in of_scope[scope]:
                records.put_as_it_was(connection, head, record, text)
        if end.epoch:
            connection.execute("INSERT OR IGNORE INTO leases (scope, epoch) VALUES (?,?)", (scope, end.epoch))


def free_for(path: Path, contents: Contents) -> int | None:
    """The newest transaction of the copy at `path` that `contents` may replace; None where nothing is.

    Raises StoreError where another state is, or this one itself.
    """
    if not path.exists():
        return None
    with closing(connect(path)) as connection:
        schema.require(connection, path)
        there = checks.read(connection, moved=True)
        if there.lineage != contents.lineage or not signed.read(connection, there.lineage, MOVED_TO):
            raise is_there(path)
        connection.execute("PRAGMA busy_timeout = 0")
        (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:  # its WAL, which may hold the mark that it has moved, cannot go
        raise StoreError(f"another process has the state {path} open", help="end it and run again")
    return there.version


def retire(
    connection: sqlite3.Connection, path: Path, to: str, contents: Contents, key: bytes | None
) -> None:
    with checks.writing(connection, path, checks.LEASES, moved=True) as current:
        now = export(connection, key)
        if now.moved_to not in ("", to) or not same(now, contents):
            raise has_changed(path)
        connection.execute("UPDATE leases SET released = 1")
        mark(connection, current.lineage, to)


def revive(connection: sqlite3.Connection, path: Path) -> None:
    with checks.writing(connection, path, moved=True):
        connection.execute("DELETE FROM meta WHERE key = ?", (MOVED_TO,))


def mark(connection: sqlite3.Connection, lineage: str, to: str) -> None:
    """Say that the state is at `to`, in the caller's transaction."""
    signed.write(connection, lineage, MOVED_TO, to)
