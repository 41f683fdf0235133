"""What can still be believed of a damaged state: rows whose hashes and digests fit."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from reconciler.core.model import Address, StateRecord
from reconciler.state.chain import row_hash
from reconciler.state.codec import EntryColumns
from reconciler.state.sqlite import archive, older, records
from reconciler.state.sqlite.checks import Checks
from reconciler.state.sqlite.database import Damaged
from reconciler.state.sqlite.heads import Head

Row = tuple[Any, ...]


@dataclass(slots=True)
class Salvage:
    """`rows` of the journal after a backup's, oldest first, by their number; `records` with their bodies.

    `scopes`: of each of these rows. `end`: the newest row that is known to have existed. `serial`: the
    highest of any record. `all_records`: none is missing.
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


def salvage(file: Path, base: Checks, heads: Mapping[str, Head]) -> Salvage:
    """Read `file`, a copy of the damaged database with its WAL beside it. Never raises for what it holds.

    `base` and `heads`: of the backup, after which rows are looked for. The file may be of an older version.
    """
    salvaged = Salvage(end=base.rows)
    try:
        with closing(sqlite3.connect(file)) as connection:
            connection.text_factory = lambda text: text.decode(errors="replace")
            with suppress(sqlite3.Error):  # a file of an older version, whose rows name no scope
                connection.execute("ALTER TABLE journal ADD COLUMN scope TEXT NOT NULL DEFAULT ''")
            known = _checks(connection, salvaged)
            _journal(connection, salvaged, base, heads)
            _records(connection, salvaged)
            salvaged.all_records = len(salvaged.records) == known
    except sqlite3.Error:
        pass  # not even a database: what was read until here counts
    return salvaged


def _checks(connection: sqlite3.Connection, salvaged: Salvage) -> int | None:
    """How many records there should be; None where that is not known."""
    try:
        current, heads = older.checks_of(connection)
    except (Damaged, sqlite3.Error):
        return None
    salvaged.end, salvaged.serial, salvaged.version = current.rows, current.serial, current.version
    salvaged.lineage, salvaged.end_known = current.lineage, True
    return sum(head.records for head in heads.values())


def _journal(
    connection: sqlite3.Connection, salvaged: Salvage, base: Checks, heads: Mapping[str, Head]
) -> None:
    query = f"{archive.READ} ORDER BY rowid"
    # From both ends: a damaged page stops a walk.
    rows = {row[-1]: row for order in ("ASC", "DESC") for row in _readable(connection, f"{query} {order}")}
    rows |= {row[-1]: row for row in _packed(connection)}
    # Hashes by place and scope. Those of the backup differ where the file is of an older version.
    before: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    before[0][""].append(base.lineage)
    for scope, head in heads.items():
        before[head.seq][scope].append(head.hash)
    rows = {number: row for number, row in rows.items() if isinstance(row[8], int)}  # its place, undamaged
    for *_, hash, seq, scope, _ in rows.values():
        before[seq][scope].append(hash)
    for number in sorted(each for each in rows if each > base.rows):
        *columns, data, hash, seq, scope, _ = rows[number]
        # In a file of an older version, the row before may be of another scope.
        known = before[seq - 1]
        if any(
            row_hash(each, seq, columns, data, scope) == hash for each in chain(known[scope], *known.values())
        ):
            salvaged.rows[number], salvaged.scopes[number] = (*columns, data.decode()), scope
    salvaged.end = max(salvaged.end, *rows) if rows else salvaged.end


def _records(connection: sqlite3.Connection, salvaged: Salvage) -> None:
    order = "kind {0}, app {0}, name {0}, ordinal {0}"
    for direction in ("ASC", "DESC"):
        query = f"{records.SELECT} ORDER BY {order.format(direction)}"
        for kind, name, app, ordinal, serial, body, digest in _readable(connection, query):
            try:
                address = Address(kind, name, app or None, ordinal)
                salvaged.records[address] = (records.read_row(address, serial, body, digest), body.decode())
            except (Damaged, KeyError, TypeError, ValueError, AttributeError):
                continue


def _packed(connection: sqlite3.Connection) -> Iterator[Row]:
    """The rows of segments that can be read. Each is compared with its own hash after that, as others are."""
    for (body,) in _readable(connection, "SELECT body FROM archive ORDER BY first"):
        with suppress(ValueError, TypeError, AttributeError):
            yield from archive.unpacked(body)


def _readable(connection: sqlite3.Connection, query: str) -> Iterator[Row]:
    """The rows up to the first that cannot be read."""
    try:
        yield from connection.execute(query)
    except sqlite3.Error:
        return
