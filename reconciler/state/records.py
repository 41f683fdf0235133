"""The records in SQLite: one row each, replaced only by who knows its serial, and checked when read."""

import gc
import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from reconciler.errors import StoreError
from reconciler.model import Address, StateRecord
from reconciler.state.codec import decode_record
from reconciler.state.database import Damaged


def load(connection: sqlite3.Connection) -> dict[Address, StateRecord]:
    """All records. Raises Damaged at the first whose digest does not fit."""
    with _garbage_collector_paused():
        return dict(_read_all(connection))


def _read_all(connection: sqlite3.Connection) -> Iterator[tuple[Address, StateRecord]]:
    rows = connection.execute(
        # The text as bytes: what a flipped bit made of it need not be UTF-8.
        "SELECT kind, name, app, ordinal, serial, CAST(body AS BLOB), digest FROM records"
    )
    for kind, name, app, ordinal, serial, body, digest in rows:
        address = Address(kind, name, app or None, ordinal)
        if _digest(address, serial, body) != digest:
            raise Damaged(f"the record of {address} is not what was written")
        yield address, decode_record(address, serial, body)


def put(
    connection: sqlite3.Connection, changes: Sequence[tuple[StateRecord, str]]
) -> tuple[StateRecord, ...]:
    """Store each record with its encoded body, and return the records with their new serials.

    A serial is never used twice in one state, so that a plan made for a record does not fit a
    later one of the same address. Raises StoreError naming a record that has moved.
    """
    if not changes:
        return ()
    (last,) = connection.execute(
        "UPDATE meta SET value = value + ? WHERE key = 'serial' RETURNING value", (len(changes),)
    ).fetchone()
    return tuple(
        _put_one(connection, record, body, serial)
        for serial, (record, body) in enumerate(changes, start=last - len(changes) + 1)
    )


def _put_one(connection: sqlite3.Connection, record: StateRecord, body: str, serial: int) -> StateRecord:
    address = record.address
    digest = _digest(address, serial, body.encode())
    if record.serial:
        statement = """UPDATE records SET serial = ?, body = ?, digest = ?
            WHERE kind = ? AND app = ? AND name = ? AND ordinal = ? AND serial = ?"""
        parameters: tuple[object, ...] = (serial, body, digest, *_key(address), record.serial)
    else:
        statement = """INSERT INTO records (serial, body, digest, kind, app, name, ordinal)
            VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"""
        parameters = (serial, body, digest, *_key(address))
    if connection.execute(statement, parameters).rowcount != 1:
        raise StoreError(f"the record of {address} has changed since it was read", help="run again")
    return replace(record, serial=serial)


def remove(connection: sqlite3.Connection, address: Address) -> None:
    """Drop the record, if there is one."""
    connection.execute(
        "DELETE FROM records WHERE kind = ? AND app = ? AND name = ? AND ordinal = ?", _key(address)
    )


def _key(address: Address) -> tuple[str, str, str, int]:
    return address.kind, address.app or "", address.name, address.ordinal


def _digest(address: Address, serial: int, body: bytes) -> str:
    kind, name, app, ordinal = address
    return hashlib.sha256(f"{kind}\n{app}\n{name}\n{ordinal}\n{serial}\n".encode() + body).hexdigest()


@contextmanager
def _garbage_collector_paused() -> Iterator[None]:
    """A hundred thousand new objects, none of them garbage, would be scanned again and again."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
