"""Where each scope's chain of journal rows ends, and how many records and serials the scope has had.

One row each, which every commit of the scope locks and replaces. `lists` is a sum over the rows of the table
`lists` that commits of this scope made, less those that they dropped: over all scopes, it is the sum over the
rows that stand there. So a row that is missing is noticed, and no two scopes share a sum.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from reconciler.state.postgres.line import Row, Statement
from reconciler.state.postgres.problems import Damaged
from reconciler.state.postgres.schema import Identity

SELECT = "SELECT scope, seq, hash, serial, records, lists, digest FROM reconcile.heads WHERE state = %s"
_NEW = "unnest(%s::text[], %s::bigint[], %s::text[], %s::bigint[], %s::bigint[], %s::text[], %s::text[])"
_INSERT = f"""INSERT INTO reconcile.heads (state, scope, seq, hash, serial, records, lists, digest)
    SELECT %s, * FROM {_NEW} AS new(scope) ORDER BY scope ON CONFLICT DO NOTHING"""
_UPDATE = f"""UPDATE reconcile.heads h
    SET seq = n.seq, hash = n.hash, serial = n.serial, records = n.records, lists = n.lists,
        digest = n.digest
    FROM {_NEW} AS n(scope, seq, hash, serial, records, lists, digest)
    WHERE h.state = %s AND h.scope = n.scope"""
_BITS = 256


@dataclass(slots=True)
class Head:
    """`seq` and `hash` of the newest row; the highest `serial` of a record; how many `records` there are."""

    scope: str
    seq: int
    hash: str
    serial: int
    records: int = 0
    lists: int = 0  # may be below zero; what is stored is the remainder

    @property
    def row(self) -> Row:
        """The columns."""
        values = (self.scope, self.seq, self.hash, self.serial, self.records, text(self.lists))
        return (*values, _digest(values))


def make(identity: Identity, scopes: Iterable[str]) -> Statement:
    """Give each scope a head, which every commit of the scope locks first."""
    return insert(identity.id, (Head(scope, 0, identity.lineage, 0) for scope in scopes))


def lock(state: int, scopes: Sequence[str]) -> Statement:
    """Rows for `read`; nobody else commits to `scopes` until the transaction ends."""
    return f"{SELECT} AND scope = ANY(%s) ORDER BY scope FOR UPDATE", [state, scopes]


def lock_all(state: int) -> Statement:
    """Nobody commits to any scope until the transaction ends."""
    return f"{SELECT} ORDER BY scope FOR UPDATE", [state]


def insert(state: int, heads: Iterable[Head]) -> Statement:
    return _INSERT, [state, *_columns(heads)]


def store(state: int, heads: Iterable[Head]) -> Statement:
    return _UPDATE, [*_columns(heads), state]


def read(rows: Iterable[Row]) -> dict[str, Head]:
    """By scope. Raises Damaged when one is not what was written."""
    found = {}
    for *values, digest in rows:
        if _digest(values) != digest:
            raise Damaged("table heads is not what was written")
        scope, seq, hash, serial, records, lists = values
        found[scope] = Head(scope, seq, hash, serial, records, int(lists, 16))
    return found


def version(heads: Mapping[str, Head]) -> str:
    """A digest over all heads, as the server computes it for `schema.known`; "" for none."""
    ends = ",".join(heads[scope].row[-1] for scope in sorted(heads))
    return hashlib.sha256(ends.encode()).hexdigest() if ends else ""


def _columns(heads: Iterable[Head]) -> list[list[object]]:
    rows = [head.row for head in heads]
    return [[row[number] for row in rows] for number in range(7)]


def _digest(values: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()


def text(total: int) -> str:
    return f"{total % (1 << _BITS):064x}"
