"""The records in PostgreSQL: one row each, checked when it is read."""

import hashlib
from collections.abc import Iterable, Sequence

from reconciler.core.model import Address, StateRecord
from reconciler.state.codec import decode_record
from reconciler.state.postgres.line import Row, Statement
from reconciler.state.postgres.problems import Damaged

SELECT = (
    "SELECT kind, app, name, ordinal, scope, id, serial, body, digest FROM reconcile.records WHERE state = %s"
)
SELECT_SOME = f"{SELECT} AND scope = ANY(%s)"
SELECT_OTHERS = """SELECT kind, app, name, ordinal, id FROM reconcile.records
    WHERE state = %s AND NOT scope = ANY(%s)"""

_KEYS = "unnest(%s::text[], %s::text[], %s::text[], %s::int[])"
_FIND = f"""SELECT r.kind, r.app, r.name, r.ordinal, r.scope, r.serial FROM reconcile.records r
    JOIN {_KEYS} AS w(kind, app, name, ordinal)
    ON (r.kind, r.app, r.name, r.ordinal) = (w.kind, w.app, w.name, w.ordinal) WHERE r.state = %s"""
_DELETE = f"""DELETE FROM reconcile.records r USING {_KEYS} AS w(kind, app, name, ordinal)
    WHERE (r.kind, r.app, r.name, r.ordinal) = (w.kind, w.app, w.name, w.ordinal) AND r.state = %s"""
_INSERT = """INSERT INTO reconcile.records
    (state, kind, app, name, ordinal, scope, id, serial, body, digest)
    SELECT %s, * FROM unnest(%s::text[], %s::text[], %s::text[], %s::int[], %s::text[], %s::text[],
        %s::bigint[], %s::text[], %s::text[])"""


def read(row: Row) -> StateRecord:
    """Raises Damaged when the digest, or a column that repeats a part of the body, does not fit."""
    kind, app, name, ordinal, scope, id, serial, body, digest = row
    address = Address(kind, name, app or None, ordinal)
    encoded = body.encode()
    if _digest(address, serial, encoded) == digest:
        record = decode_record(address, serial, encoded)
        if (record.scope, record.id) == (scope, id):
            return record
    raise Damaged(f"the record of {address} is not what was written")


def read_id(row: Row) -> tuple[Address, str]:
    """Of a row of `SELECT_OTHERS`."""
    kind, app, name, ordinal, id = row
    return Address(kind, name, app or None, ordinal), id


def find(state: int, addresses: Iterable[Address]) -> Statement:
    """Asks for rows of address, scope and serial, which `found` reads."""
    return _FIND, [*_columns(addresses), state]


def found(rows: Iterable[Row]) -> dict[Address, tuple[str, int]]:
    """Scope and serial of each record that is there."""
    return {Address(row[0], row[2], row[1] or None, row[3]): (row[4], row[5]) for row in rows}


def delete(state: int, addresses: Iterable[Address]) -> Statement:
    return _DELETE, [*_columns(addresses), state]


def insert(state: int, changes: Sequence[tuple[StateRecord, str]]) -> Statement:
    """`changes`: records with their encoded bodies. Fails where an address has a record."""
    rows = [
        (
            *_key(each.address),
            each.scope,
            each.id,
            each.serial,
            body,
            _digest(each.address, each.serial, body.encode()),
        )
        for each, body in changes
    ]
    return _INSERT, [state, *map(list, zip(*rows, strict=True))]


def _columns(addresses: Iterable[Address]) -> list[list[object]]:
    rows = [_key(address) for address in addresses]
    return [[row[number] for row in rows] for number in range(4)]


def _key(address: Address) -> tuple[str, str, str, int]:
    return address.kind, address.app or "", address.name, address.ordinal


def _digest(address: Address, serial: int, body: bytes) -> str:
    kind, name, app, ordinal = address
    return hashlib.sha256(f"{kind}\n{app}\n{name}\n{ordinal}\n{serial}\n".encode() + body).hexdigest()
