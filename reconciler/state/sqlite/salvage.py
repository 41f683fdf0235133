"""What can still be believed of a damaged state: rows whose hashes and digests fit."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reconciler.core.model import Address, StateRecord
from reconciler.state.codec import EntryColumns
from reconciler.state.sqlite import checks, journal, records
from reconciler.state.sqlite.database import Damaged

Row = tuple[Any, ...]


@dataclass(slots=True)
class Salvage:
    """`rows` of the journal after a backup's head, oldest first, by seq; `records` with their bodies.

    `scopes`: of each of these rows. `end`: the newest row that is known to have existed. `all_records`: none
    is missing.
    """

    rows: dict[int, EntryColumns] = field(default_factory=dict)
    scopes: dict[int, str] = field(default_factory=dict)
    records: dict[Address, tuple[StateRecord, str]] = field(default_factory=dict)
    end: int = 0
    serial: int = 0
    version: int = 0
    lineage: str = ""
    end_known: bool = False
    all_records: bool = False


def salvage(file: Path, head_seq: int, head_hash: str) -> Salvage:
    """Read `file`, a copy of the damaged database with its WAL beside it. Never raises for what it holds."""
    found = Salvage(end=head_seq)
    try:
        with closing(sqlite3.connect(file)) as connection:
            connection.text_factory = lambda text: text.decode(errors="replace")
            with suppress(sqlite3.Error):  # a file of an earlier version, whose rows name no scope
                connection.execute("ALTER TABLE journal ADD COLUMN scope TEXT NOT NULL DEFAULT ''")
            _checks(connection, found)
            _journal(connection, found, head_seq, head_hash)
            _records(connection, found)
    except sqlite3.Error:
        pass  # not even a database: what was read until here counts
    return found


def _checks(connection: sqlite3.Connection, found: Salvage) -> None:
    try:
        current = checks.read(connection)
    except (Damaged, sqlite3.Error):
        return
    found.end, found.serial, found.version = current.head_seq, current.serial, current.version
    found.lineage, found.end_known = current.lineage, True


def _journal(connection: sqlite3.Connection, found: Salvage, head_seq: int, head_hash: str) -> None:
    query = f"{journal.READ} WHERE seq > {head_seq} ORDER BY seq"
    # From both ends: a damaged page stops a walk.
    rows = {row[8]: row for order in ("ASC", "DESC") for row in _readable(connection, f"{query} {order}")}
    hashes = {head_seq: head_hash} | {seq: row[7] for seq, row in rows.items()}
    for seq in sorted(rows):
        *columns, data, hash, _, scope = rows[seq]
        if seq - 1 in hashes and journal.chain(hashes[seq - 1], seq, columns, data, scope) == hash:
            found.rows[seq], found.scopes[seq] = (*columns, data.decode()), scope
    found.end = max(found.end, *rows) if rows else found.end


def _records(connection: sqlite3.Connection, found: Salvage) -> None:
    order = "kind {0}, app {0}, name {0}, ordinal {0}"
    for direction in ("ASC", "DESC"):
        query = f"{records.SELECT} ORDER BY {order.format(direction)}"
        for kind, name, app, ordinal, serial, body, digest in _readable(connection, query):
            try:
                address = Address(kind, name, app or None, ordinal)
                found.records[address] = (records.read_row(address, serial, body, digest), body.decode())
            except (Damaged, KeyError, TypeError, ValueError, AttributeError):
                continue
    try:
        found.all_records = found.end_known and checks.read(connection).records == len(found.records)
    except (Damaged, sqlite3.Error):
        found.all_records = False


def _readable(connection: sqlite3.Connection, query: str) -> Iterator[Row]:
    """The rows up to the first that cannot be read."""
    try:
        yield from connection.execute(query)
    except sqlite3.Error:
        return
