"""Where each scope's chain of journal rows ends, and how many records and serials the scope has had.

One row each in the table `heads`, replaced with each change of the scope. The check values hold one sum over
all rows: a change replaces its own part of it, so that it costs the same for one scope and for thousands, and
covers up no damage to another row, or to its own.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from reconciler.state.sqlite.checks import Checks
from reconciler.state.sqlite.database import Damaged

_SUM_BITS = 256
_SELECT = "SELECT scope, seq, hash, serial, records, digest FROM heads"


@dataclass(slots=True)
class Head:
    """`seq` and `hash` of the newest row; the highest `serial` of a record; how many `records` there are."""

    seq: int
    hash: str
    serial: int
    records: int = 0


def read(connection: sqlite3.Connection, checks: Checks) -> dict[str, Head]:
    """By scope. Raises Damaged when one is not what was written, or missing."""
    found, total = {}, 0
    for row in connection.execute(_SELECT):
        found[row[0]] = _checked(row)
        total += int(row[-1], 16)
    if _text(total) != checks.heads:
        raise Damaged("table heads is not what was written")
    return found


def count(heads: Mapping[str, Head]) -> int:
    """All records of all scopes."""
    return sum(head.records for head in heads.values())


@contextmanager
def changing(connection: sqlite3.Connection, checks: Checks, scope: str) -> Iterator[Head]:
    """The head of `scope`, stored as the block leaves it, in the caller's transaction."""
    row = connection.execute(f"{_SELECT} WHERE scope = ?", (scope,)).fetchone()
    head = _checked(row) if row else Head(0, checks.lineage, checks.least_serial)
    yield head
    before, after = row[-1] if row else "0", _digest(scope, head)
    if after == before:
        return
    checks.serial = max(checks.serial, head.serial)
    checks.heads = _text(int(checks.heads, 16) - int(before, 16) + int(after, 16))
    connection.execute("INSERT OR REPLACE INTO heads VALUES (?,?,?,?,?,?)", (scope, *_columns(head), after))


def clear_records(connection: sqlite3.Connection, checks: Checks) -> None:
    """Count no record in any scope."""
    for scope in read(connection, checks):
        with changing(connection, checks, scope) as head:
            head.records = 0


def raise_serials(connection: sqlite3.Connection, checks: Checks, least: int) -> None:
    """Let every scope, also one that begins later, count on from `least` or above."""
    checks.least_serial = max(checks.least_serial, least)
    for scope in read(connection, checks):
        with changing(connection, checks, scope) as head:
            head.serial = max(head.serial, least)


def _checked(row: tuple[Any, ...]) -> Head:
    scope, *values, digest = row
    head = Head(*values)
    if digest != _digest(scope, head):
        raise Damaged("table heads is not what was written")
    return head


def _digest(scope: str, head: Head) -> str:
    return hashlib.sha256(json.dumps([scope, *_columns(head)]).encode()).hexdigest()


def _columns(head: Head) -> tuple[int, str, int, int]:
    return head.seq, head.hash, head.serial, head.records


def _text(total: int) -> str:
    return f"{total % (1 << _SUM_BITS):064x}"
