"""All that one state holds, as no backend in particular keeps it: what moves, backups and restores carry.

Journal rows and records are here as they were encoded, so that hashes and serials stay what they were.
"""

import dataclasses
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.errors import StoreError, named
from reconciler.core.model import Address
from reconciler.state.chain import row_hash
from reconciler.state.codec import EntryColumns, decode_record, encode_entry
from reconciler.state.rules import View, after, effect_of_row
from reconciler.state.store import JournalEntry


class Row(Struct, frozen=True):
    """One row of the journal: its place in the chain of `scope`, and its hash there (`state.chain`)."""

    scope: str
    seq: int
    columns: EntryColumns
    hash: str


class Head(Struct, frozen=True):
    """Where a scope's chain ends, the highest serial of its records, and the epoch of its newest lease."""

    seq: int
    hash: str
    serial: int
    epoch: int = 0


class Body(Struct, frozen=True):
    """One record, as `codec.encode_record` has it."""

    serial: int
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class StateDump:
    """`rows`: by their time, those of one scope in their own order.

    `heads`: of every scope that has a row, a record or ever had a lease. `environment`: "" for that of no
    environment. `moved_to`: where the state is now, of which this is what stayed behind (with `errors.COPY`
    before it: a copy that has not been the state yet); "" for the state itself. `least_serial`: from which on
    the records of a new scope count, because a restore lost some that may have been higher.
    """

    lineage: str
    key: bytes = dataclasses.field(repr=False)
    environment: str
    rows: tuple[Row, ...] = ()
    records: Mapping[Address, Body] = dataclasses.field(default_factory=dict)
    heads: Mapping[str, Head] = dataclasses.field(default_factory=dict)
    moved_to: str = ""
    least_serial: int = 0

    def head(self, scope: str) -> Head:
        return self.heads.get(scope, Head(0, self.lineage, self.least_serial))

    @property
    def hashes(self) -> dict[str, str]:
        """As `State.heads`."""
        return {scope: head.hash for scope, head in self.heads.items() if head.seq}


def verify(contents: StateDump) -> None:
    """Raises StoreError when a row, a record or a head is not what was written."""
    view: View[int] = View()
    ends = dict[str, Row]()
    written = chained(contents.lineage, ((row.scope, row.columns) for row in contents.rows))
    for index, row in enumerate(contents.rows):
        try:
            ends[row.scope] = expected = next(written)
            if row.seq != expected.seq:
                raise ValueError("does not follow the one before it")
            if row.hash != expected.hash:
                raise ValueError("is not what was written")
            effect = effect_of_row(row.columns)
            view = after(view, replace(effect, plans=()), index)  # a plan may run again; all of them are many
        except ValueError as broken:
            raise _not_whole(f"row {row.seq} of the journal of `{row.scope}` {broken}") from None
    for scope in {*ends, *contents.heads}:
        head, end = contents.head(scope), ends.get(scope)
        if ((end.seq, end.hash) if end is not None else (0, contents.lineage)) != (head.seq, head.hash):
            raise _not_whole(f"the journal of {named(scope)} does not end where it should")
    for address, body in contents.records.items():
        try:
            record = decode_record(address, body.serial, body.text.encode())
        except (KeyError, TypeError, ValueError):
            raise _not_whole(f"the record of {address} cannot be read") from None
        if not 0 < body.serial <= contents.head(record.scope).serial:
            raise _not_whole(f"the record of {address} has a serial that `{record.scope}` never had")


def chained(lineage: str, rows: Iterable[tuple[str, EntryColumns]]) -> Iterator[Row]:
    """The rows of a journal that holds these entries, each given with its scope."""
    ends = dict[str, Row]()
    for scope, columns in rows:
        seq, before = (ends[scope].seq, ends[scope].hash) if scope in ends else (0, lineage)
        ends[scope] = _next(scope, seq, before, columns)
        yield ends[scope]


def _next(scope: str, seq: int, before: str, columns: EntryColumns) -> Row:
    """The row that follows the one at `seq`, whose hash is `before`."""
    return Row(scope, seq + 1, columns, row_hash(before, seq + 1, columns[:-1], columns[-1].encode(), scope))


def unpacked(body: bytes) -> list[list[Any]]:
    """The rows that an older program packed together, oldest first. Raises ValueError for other bytes."""
    try:
        return [json.loads(line) for line in zlib.decompress(body).splitlines()]
    except zlib.error as error:
        raise ValueError("not what was packed") from error


def with_entry(contents: StateDump, scope: str, entry: JournalEntry) -> StateDump:
    """With one more entry at the end of the journal of `scope`."""
    head = contents.head(scope)
    row = _next(scope, head.seq, head.hash, encode_entry(entry))
    heads = {**contents.heads, scope: replace(head, seq=row.seq, hash=row.hash)}
    return dataclasses.replace(contents, rows=(*contents.rows, row), heads=heads)


def same(one: StateDump, other: StateDump) -> bool:
    """Whether both hold the same: their leases, and which of them has moved, do not count."""
    return _held(one) == _held(other)


def _held(contents: StateDump) -> tuple[object, ...]:
    """Hashes of the chains' ends stand for all rows."""
    ends = {scope: (head.seq, head.hash, head.serial) for scope, head in contents.heads.items()}
    used = {scope: end for scope, end in ends.items() if end != (0, contents.lineage, 0)}
    return contents.lineage, contents.key, contents.environment, used, contents.records


def is_there(place: object) -> StoreError:
    return StoreError(f"there is a state {place} already", help="name a place without one")


def has_changed(place: object) -> StoreError:
    return StoreError(
        f"the state {place} has changed since it was copied", help="nothing was moved; run again"
    )


def _not_whole(what: str) -> StoreError:
    return StoreError(f"the copy of the state is not what was written: {what}")
