"""The records in SQLite: one row each, replaced only by who knows its serial, and checked when read."""

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from reconciler.core.errors import StoreError
from reconciler.core.garbage import collector_paused
from reconciler.core.model import Address, StateRecord
from reconciler.state.codec import decode_record
from reconciler.state.contents import Body
from reconciler.state.sqlite import heads
from reconciler.state.sqlite.checks import Checks
from reconciler.state.sqlite.database import Damaged
from reconciler.state.sqlite.heads import Head
from reconciler.state.store import not_covered

# The text as bytes: what a flipped bit made of it need not be UTF-8.
SELECT = "SELECT kind, name, app, ordinal, serial, CAST(body AS BLOB), digest FROM records"


def load(connection: sqlite3.Connection, count: int) -> dict[Address, StateRecord]:
    """All `count` records. Raises Damaged at the first whose digest does not fit, and when one is missing."""
    with collector_paused():
        found = dict(_read_all(connection))
    if len(found) != count:
        raise Damaged(f"there are {len(found)} records, and not {count}")
    return found


def bodies(connection: sqlite3.Connection) -> dict[Address, Body]:
    """All records as they are stored, not verified."""
    return {
        Address(kind, name, app or None, ordinal): Body(serial, body.decode())
        for kind, name, app, ordinal, serial, body, _ in connection.execute(SELECT)
    }


def verify(connection: sqlite3.Connection, count: int) -> None:
    """As `load`, but makes no records: several times as fast. Raises Damaged."""
    found = 0
    for kind, name, app, ordinal, serial, body, digest in connection.execute(SELECT):
        found += 1
        if _digest(address := Address(kind, name, app or None, ordinal), serial, body) != digest:
            raise Damaged(f"the record of {address} is not what was written")
    if found != count:
        raise Damaged(f"there are {found} records, and not {count}")


def _read_all(connection: sqlite3.Connection) -> Iterator[tuple[Address, StateRecord]]:
    same: dict[str, str] = {}  # a row's texts are its own, also where many rows have the same
    for kind, name, app, ordinal, serial, body, digest in connection.execute(SELECT):
        address = Address(same.setdefault(kind, kind), name, same.setdefault(app, app) or None, ordinal)
        yield address, read_row(address, serial, body, digest)


def read_row(address: Address, serial: int, body: bytes, digest: str) -> StateRecord:
    """Raises Damaged when the digest does not fit."""
    if _digest(address, serial, body) != digest:
        raise Damaged(f"the record of {address} is not what was written")
    return decode_record(address, serial, body)


def put(
    connection: sqlite3.Connection, head: Head, changes: Sequence[tuple[StateRecord, str]]
) -> tuple[StateRecord, ...]:
    """Store each record, of the scope of `head`, with its encoded body; they come back with new serials.

    A serial is never used twice in one scope, so that a plan made for a record does not fit a
    later one of the same address. Raises StoreError naming a record that has moved, or is another scope's.
    """
    stored = []
    for record, body in changes:
        head.serial += 1
        head.records += not record.serial
        stored.append(_put_one(connection, record, body, head.serial))
    return tuple(stored)


def put_as_it_was(connection: sqlite3.Connection, head: Head, record: StateRecord, body: str) -> None:
    """Store a record of another file of this state with its own serial, at an address that has none."""
    head.serial = max(head.serial, record.serial)
    head.records += 1
    connection.execute(
        "INSERT INTO records (serial, body, digest, kind, app, name, ordinal) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (record.serial, body, _digest(record.address, record.serial, body.encode()), *_key(record.address)),
    )


def _put_one(connection: sqlite3.Connection, record: StateRecord, body: str, serial: int) -> StateRecord:
    address = record.address
    digest = _digest(address, serial, body.encode())
    if record.serial:
        statement = """UPDATE records SET serial = ?, body = ?, digest = ?
            WHERE kind = ? AND app = ? AND name = ? AND ordinal = ? AND serial = ?
            AND json_extract(body, '$.scope') = ?"""
        parameters: tuple[object, ...] = (serial, body, digest, *_key(address), record.serial, record.scope)
    else:
        statement = """INSERT INTO records (serial, body, digest, kind, app, name, ordinal)
            VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"""
        parameters = (serial, body, digest, *_key(address))
    if connection.execute(statement, parameters).rowcount != 1:
        raise StoreError(f"the record of {address} has changed since it was read", help="run again")
    return replace(record, serial=serial)


def clear(connection: sqlite3.Connection, checks: Checks) -> None:
    connection.execute("DELETE FROM records")
    heads.clear_records(connection, checks)


def remove(connection: sqlite3.Connection, head: Head, address: Address, scope: str) -> None:
    """Drop the record, if there is one. Raises StoreError when it is of another scope."""
    removed = connection.execute(
        """DELETE FROM records WHERE kind = ? AND app = ? AND name = ? AND ordinal = ?
        RETURNING json_extract(body, '$.scope')""",
        _key(address),
    ).fetchall()
    for (found,) in removed:
        if found != scope:
            raise not_covered(found, address)
    head.records -= len(removed)


def _key(address: Address) -> tuple[str, str, str, int]:
    return address.kind, address.app or "", address.name, address.ordinal


def _digest(address: Address, serial: int, body: bytes) -> str:
    kind, name, app, ordinal = address
    return hashlib.sha256(f"{kind}\n{app}\n{name}\n{ordinal}\n{serial}\n".encode() + body).hexdigest()
