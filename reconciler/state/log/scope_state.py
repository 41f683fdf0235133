"""A scope after all its changes, and whether one more change is allowed. Pure, but for `ScopeState.take`."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.core.errors import StoreError
from reconciler.core.model import Address, StateRecord
from reconciler.state import rules
from reconciler.state.chain import row_hash
from reconciler.state.codec import EntryColumns, decode_record
from reconciler.state.log.changes import SUM_BITS, Change, Row, StoredRecord
from reconciler.state.log.damage import Damaged
from reconciler.state.rules import View
from reconciler.state.store import Event, not_covered


class ScopeSummary(Struct, frozen=True):
    """All but the records. `changes`: how many there were; `seq` and `hash`: the end of the journal's chain.

    `serial`: the highest of any record; `sum`: over the digests of the records there are.
    Plans that ran stand in two sets, because one is copied with each run.
    """

    hash: str  # a chain begins with the lineage
    changes: int = 0
    seq: int = 0
    serial: int = 0
    records: int = 0
    sum: int = 0
    view: View[EntryColumns] = field(default_factory=View)
    claimed: frozenset[str] = frozenset()  # untracked objects that were decided about here
    plans: frozenset[str] = frozenset()  # that had run when the base was made, beside those of `view`


@dataclasses.dataclass(eq=False, slots=True)
class ScopeState:
    """A scope as of one change."""

    marks: ScopeSummary
    stored: dict[Address, StoredRecord] = dataclasses.field(default_factory=dict)
    records: dict[Address, StateRecord] = dataclasses.field(default_factory=dict)  # `stored`, decoded

    def take(self, change: Change, marks: ScopeSummary) -> None:
        """`marks`: what `validate` or `read` made of the change. Raises Damaged."""
        for address in change.remove:
            self.stored.pop(address, None)
            self.records.pop(address, None)
        for stored in change.put:
            self.stored[stored.address] = stored
            self.records[stored.address] = _decoded(stored)
        self.marks = marks


def _decoded(stored: StoredRecord) -> StateRecord:
    try:
        return decode_record(stored.address, stored.serial, stored.body.encode())
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(f"the record of {stored.address} is not what was written") from error


Lookup = Callable[[Address], StoredRecord | None]  # the record of this scope at an address


class Wanted(Struct, frozen=True):
    """One call of `Store.commit`, encoded."""

    scope: str
    entries: Sequence[EntryColumns]
    put: Sequence[tuple[StateRecord, str]]
    remove: Sequence[Address]


def validate(
    marks: ScopeSummary, lookup: Lookup, elsewhere: Callable[[Address], str | None], wanted: Wanted, id: str
) -> tuple[Change, ScopeSummary]:
    """The change that stores `wanted`. Raises StoreError if it is not allowed.

    `elsewhere`: the scope, another one, that has a record at an address.
    """
    for record, _ in wanted.put:
        if record.scope != wanted.scope:
            raise not_covered(record.scope, record.address)
    marks, rows = _append(marks, wanted.scope, wanted.entries)
    gone = set(wanted.remove)
    for address in gone:
        _not_of(elsewhere(address), address)
    put: dict[Address, StoredRecord] = {}
    for record, body in wanted.put:
        address = record.address
        there = put.get(address) or (None if address in gone else lookup(address))
        if record.serial != (there.serial if there is not None else 0):
            raise StoreError(f"the record of {address} has changed since it was read", help="run again")
        if there is None and address not in gone:
            _not_of(elsewhere(address), address)
        put[address] = StoredRecord(address, marks.serial + len(put) + 1, body)
    change = Change(marks.changes + 1, id, rows, list(put.values()), list(wanted.remove))
    return change, _after(marks, lookup, change)


def read(marks: ScopeSummary, lookup: Lookup, change: Change, scope: str) -> ScopeSummary:
    """What follows from a change that was read. Raises Damaged where it is not what was written."""
    if change.number != marks.changes + 1:
        raise Damaged(f"change {change.number} of `{scope}` does not follow the one before it")
    try:
        marks, rows = _append(marks, scope, [row.columns for row in change.rows])
    except (StoreError, KeyError, TypeError, ValueError) as error:
        raise Damaged(f"change {change.number} of `{scope}` holds what was never written there") from error
    if [row.hash for row in rows] != [row.hash for row in change.rows]:
        raise Damaged(f"change {change.number} of `{scope}` is not what was written")
    return _after(marks, lookup, change)


def _after(marks: ScopeSummary, lookup: Lookup, change: Change) -> ScopeSummary:
    """`marks`, which hold the rows of the change already, once its records are stored, too."""
    gone = set(change.remove)
    for address in gone:
        marks = _replaced(marks, lookup(address), None)
    for stored in change.put:
        marks = _replaced(marks, None if stored.address in gone else lookup(stored.address), stored)
    return replace(marks, changes=change.number)


def _append(
    marks: ScopeSummary, scope: str, entries: Iterable[EntryColumns]
) -> tuple[ScopeSummary, Sequence[Row]]:
    rows = []
    for columns in entries:
        marks, row = _appended(marks, scope, columns)
        rows.append(row)
    return marks, rows


def _appended(marks: ScopeSummary, scope: str, columns: EntryColumns) -> tuple[ScopeSummary, Row]:
    row = Row(columns, row_hash(marks.hash, marks.seq + 1, columns[:-1], columns[-1].encode(), scope))
    marks = replace(marks, seq=marks.seq + 1, hash=row.hash)
    if columns[1] not in _EVENTS:
        raise ValueError(columns[1])
    effect = rules.effect_of_row(columns)
    if effect == _NONE:
        return marks, row
    return (
        replace(
            marks,
            view=rules.after(marks.view, effect, columns),
            claimed=marks.claimed | {effect.claimed} if effect.claimed else marks.claimed,
        ),
        row,
    )


_NONE = rules.Effect()
_EVENTS = frozenset(Event)


def _replaced(marks: ScopeSummary, before: StoredRecord | None, after: StoredRecord | None) -> ScopeSummary:
    total, count, serial = marks.sum, marks.records, marks.serial
    if before is not None:
        total, count = total - before.digest, count - 1
    if after is not None:
        total, count = total + after.digest, count + 1
        serial = max(serial, after.serial)
    return replace(marks, sum=total % (1 << SUM_BITS), records=count, serial=serial)


def _not_of(scope: str | None, address: Address) -> None:
    if scope is not None:
        raise not_covered(scope, address)
