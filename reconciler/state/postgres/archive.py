"""Old journal rows in PostgreSQL, packed in segments (`state.archive`): what these hold, and how it is read.

A segment has rows of one scope, which follow those of the scope's segment before. A row of the table `lists`
names it, with the plans that began in it: so the sums in the heads cover both, and they are checked whenever
the state is read. The rows of a segment are checked as all rows are, when these are read.
"""

import json
from collections.abc import Iterable, Sequence

from msgspec import Struct

from reconciler.core.errors import named
from reconciler.state import archive as packing
from reconciler.state import rules
from reconciler.state.postgres import journal
from reconciler.state.postgres.line import Row, Statement
from reconciler.state.postgres.problems import Damaged

SELECT = "SELECT scope, first, last, body FROM reconcile.archive WHERE state = %s"
# Beside a row of the journal that is not there: the segment that has it, as in `SELECT`.
COLUMNS = "a.scope, a.first, a.last, a.body"
_INSERT = "INSERT INTO reconcile.archive (state, scope, first, last, body) VALUES (%s, %s, %s, %s, %s)"
_PREVIOUS = 3  # where the columns of a row have the hash before it
_HASH = 4


def beside(scope: str, seq: str) -> str:
    """Joins the segment of a row of scope and seq, where the journal `j` does not have that row."""
    return f"""LEFT JOIN reconcile.archive a ON j.seq IS NULL AND a.state = %s AND a.scope = {scope}
    AND {seq} BETWEEN a.first AND a.last"""


class Segment(Struct, frozen=True):
    """What `lists` says of one. `hash`: of its last row; `plans`: those that its rows began."""

    scope: str
    first: int
    last: int
    hash: str
    plans: Sequence[str]

    @property
    def key(self) -> str:
        return json.dumps([self.scope, self.first])

    @property
    def value(self) -> str:
        return json.dumps({"hash": self.hash, "plans": self.plans})

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "Segment":
        """Of rows of `journal.COLUMNS`, all of one scope."""
        plans = set[str]()
        for row in rows:
            plans.update(rules.effect_of_row(journal.entry_of(row)).plans)
        (_, scope, first, *_), (_, _, last, _, hash, *_) = rows[0], rows[-1]
        return cls(scope, first, last, hash, sorted(plans))

    @classmethod
    def listed(cls, key: str, last: int, value: str) -> "Segment":
        scope, first = json.loads(key)
        return cls(scope, first, last, **json.loads(value))


def insert(state: int, segment: Segment, rows: Sequence[Row]) -> Statement:
    return _INSERT, [state, segment.scope, segment.first, segment.last, _pack(rows)]


def unpacked(segment: Row) -> list[Row]:
    """The rows of a row of `SELECT`, as `journal.COLUMNS` has them. Raises Damaged."""
    scope, first, last, body = segment
    try:
        rows = [tuple(row) for row in packing.unpack(bytes(body))]
        before = ["", *(row[_HASH] for row in rows)]
        return [
            (*row[:_PREVIOUS], row[_PREVIOUS] or previous, *row[_HASH:])
            for row, previous in zip(rows, before, strict=False)
        ]
    except (IndexError, TypeError, ValueError):
        raise Damaged(
            f"packed rows {first} to {last} of the journal of {named(scope)} cannot be read"
        ) from None


def row(segment: Row, seq: int) -> Row:
    """One row of a row of `SELECT`. Raises Damaged."""
    for found in unpacked(segment):
        if found[2] == seq:
            return found
    raise Damaged(f"row {seq} of the journal of {named(segment[0])} is missing")


def merged(rows: Iterable[Row], segments: Iterable[Row]) -> list[Row]:
    """The whole journal in the order in which its rows came. Raises Damaged for a segment."""
    packed = [row for segment in segments for row in unpacked(segment)]
    return sorted([*rows, *packed], key=lambda row: row[0])


def _pack(rows: Sequence[Row]) -> bytes:
    """A hash before that the row before says itself is left out."""
    before = ["", *(row[_HASH] for row in rows)]
    return packing.pack(
        (*row[:_PREVIOUS], "" if row[_PREVIOUS] == previous else row[_PREVIOUS], *row[_HASH:])
        for row, previous in zip(rows, before, strict=False)
    )
