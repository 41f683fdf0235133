"""A whole state as `StateDump`, and back. All of it blocks."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from heapq import merge

from msgspec.structs import replace

from reconciler.core.context import BASE
from reconciler.core.errors import StoreError
from reconciler.core.model import Address
from reconciler.state import contents as wholes
from reconciler.state.codec import decode_record
from reconciler.state.contents import Body, Row, StateDump, is_there
from reconciler.state.log import head as heads
from reconciler.state.log import root, writes
from reconciler.state.log.bucket import Bucket, Layout
from reconciler.state.log.changes import Change, StoredRecord
from reconciler.state.log.changes import Row as Hashed
from reconciler.state.log.damage import Damaged
from reconciler.state.log.head import Head
from reconciler.state.log.open_state import Opened
from reconciler.state.log.root import PROBE, UNFINISHED, Root
from reconciler.state.log.scope_state import ScopeState, ScopeSummary, read
from reconciler.state.log.segments import Files


def dump(opened: Opened, known: Root) -> StateDump:
    """All that the state of this root holds, not verified. Raises Gone, Contradiction or Damaged."""
    opened.scopes.keep_up(known)
    records: dict[Address, Body] = {}
    chains: dict[str, list[Row]] = {}
    heads = {}
    for name in sorted(known.scopes):
        with opened.scopes.reading(name) as scope:
            head, tail = scope.head, scope.tail
            records |= {
                record.address: Body(record.serial, record.body) for record in scope.folded.stored.values()
            }
        chains[name] = _rows_of(opened.files.all_changes(head, tail), head)
        heads[name] = wholes.Head(head.seq, head.hash, head.record_serial, head.epoch)
    return StateDump(
        known.lineage,
        known.key,
        known.environment,
        tuple(by_time(chains)),
        records,
        heads,
        known.moved_to,
        known.least_serial,
    )


def write(bucket: Bucket, layout: Layout, contents: StateDump, nonce: Callable[[], str]) -> None:
    """Make a state that holds exactly `contents`: its objects first, and last the root that shows them.

    Raises StoreError where there is a state already that has not moved away.
    """
    wholes.verify(contents)
    if contents.environment != layout.environment:
        raise StoreError(
            f"the copied state belongs to environment `{contents.environment or BASE}`, and not to "
            f"`{layout.environment or BASE}`",
            help="name that environment by --env",
        )
    before = root.read(bucket, layout)
    if before is None:
        root.refuse_foreign(bucket, layout)
    elif not before[0].moved_to or before[0].lineage != contents.lineage:
        raise is_there(bucket.place)
    new = Root(
        contents.lineage,
        contents.environment,
        contents.key,
        generation=nonce(),
        nonce=nonce(),
        serial=before[0].serial + 1 if before is not None else 1,
        scopes=dict.fromkeys(_scopes_of(contents), 1),
        moved_to=contents.moved_to,
        least_serial=contents.least_serial,
    )
    renewed, layout = bucket.renewed(contents.lineage), Layout(contents.environment, new.generation)
    _write_scopes(renewed, layout, contents, nonce)
    tag = before[1] if before is not None else ""
    if isinstance(writes.replace(renewed, layout.root, new.encode(), tag), writes.Conflict):
        raise is_there(bucket.place)
    bucket.delete(f"{layout.folder}{UNFINISHED}")  # its root is there
    if before is not None:
        _delete_others(bucket.raw, layout)


# --- a state that was made elsewhere, in a folder of its own; its root, which comes last, shows it ---

_ROWS = 500  # how many rows stand in one change


def _write_scopes(bucket: Bucket, layout: Layout, contents: StateDump, nonce: Callable[[], str]) -> None:
    """All of `contents` but the root, for a `layout` that nobody else uses."""
    writes.create(bucket, f"{layout.folder}{UNFINISHED}", nonce().encode())
    rows: dict[str, list[Row]] = defaultdict(list)
    for row in contents.rows:
        rows[row.scope].append(row)
    stored: dict[str, list[StoredRecord]] = defaultdict(list)
    for address, body in contents.records.items():
        scope = decode_record(address, body.serial, body.text.encode()).scope
        stored[scope].append(StoredRecord(address, body.serial, body.text))

    def write_scope(name: str) -> None:
        # Its rows, then all its records with the last of them. The base has them, too: readers begin there.
        of_scope = rows[name]
        chunks = [of_scope[start : start + _ROWS] for start in range(0, len(of_scope), _ROWS)] or [[]]
        folded, lines = ScopeState(ScopeSummary(contents.lineage)), []
        for number, chunk in enumerate(chunks, 1):
            put = stored[name] if number == len(chunks) else ()
            change = Change(number, nonce(), [Hashed(row.columns, row.hash) for row in chunk], put)
            folded.take(change, read(folded.marks, folded.stored.get, change, name))
            lines.append(change.to_line())
        folded.marks = replace(folded.marks, serial=contents.head(name).serial)
        head = Head(name, contents.lineage, serial=1, nonce=nonce(), epoch=contents.head(name).epoch)
        head = Files(bucket, layout).copied(head.of(folded.marks), lines, folded)
        writes.create(bucket, layout.head(name), heads.encode(head, ()))

    bucket.in_parallel(write_scope, _scopes_of(contents))


def _delete_others(bucket: Bucket, layout: Layout) -> None:
    """Delete what a state held at this place before: with another key, it would still be there to be read."""
    kept = (layout.folder, f"{layout.prefix}{PROBE}")
    others = [key for key in bucket.list(layout.prefix) if key != layout.root and not key.startswith(kept)]
    bucket.in_parallel(bucket.delete, others)


def _scopes_of(contents: StateDump) -> list[str]:
    return sorted({*contents.heads, *(row.scope for row in contents.rows)})


def _rows_of(changes: Iterable[Change], head: Head) -> list[Row]:
    """The rows of a scope. Raises Damaged where some are missing."""
    found = [
        Row(head.scope, seq, row.columns, row.hash)
        for seq, row in enumerate((row for change in changes for row in change.rows), 1)
    ]
    if len(found) != head.seq:
        raise Damaged(f"rows of the journal of `{head.scope}` are missing")
    return found


def by_time(chains: Mapping[str, Sequence[Row]]) -> list[Row]:
    """The rows of all scopes by their time, each scope's in its own order."""
    return list(merge(*(chains[name] for name in sorted(chains)), key=_at))


def _at(row: Row) -> datetime:
    return datetime.fromisoformat(row.columns[2])
