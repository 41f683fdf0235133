"""A state that was made elsewhere, written into a folder of its own. Its root, which comes last, shows it."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from reconciler.state.codec import decode_record
from reconciler.state.contents import Row, StateDump
from reconciler.state.log import head as heads
from reconciler.state.log import writes
from reconciler.state.log.bucket import Bucket
from reconciler.state.log.changes import Change, StoredRecord
from reconciler.state.log.changes import Row as Hashed
from reconciler.state.log.damage import Damaged
from reconciler.state.log.head import Head
from reconciler.state.log.keys import Layout
from reconciler.state.log.root import PROBE, UNFINISHED
from reconciler.state.log.scope_state import ScopeState, ScopeSummary, read
from reconciler.state.log.segments import Files

_ROWS = 500  # how many rows stand in one change


def write(bucket: Bucket, layout: Layout, contents: StateDump, nonce: Callable[[], str]) -> None:
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
        _write_scope(bucket, layout, contents, name, rows[name], stored[name], nonce)

    bucket.in_parallel(write_scope, scopes_of(contents))


def finish(bucket: Bucket, layout: Layout) -> None:
    """Its root is there."""
    bucket.delete(f"{layout.folder}{UNFINISHED}")


def delete_others(bucket: Bucket, layout: Layout) -> None:
    """Delete what a state held at this place before: with another key, it would still be there to be read."""
    kept = (layout.folder, f"{layout.environment}{PROBE}")
    others = [
        key for key in bucket.list(layout.environment) if key != layout.root and not key.startswith(kept)
    ]
    bucket.in_parallel(bucket.delete, others)


def scopes_of(contents: StateDump) -> list[str]:
    return sorted({*contents.heads, *(row.scope for row in contents.rows)})


def rows_of(changes: Iterable[Change], head: Head) -> list[Row]:
    """The rows of a scope. Raises Damaged where some are missing."""
    found = [
        Row(head.scope, seq, row.columns, row.hash)
        for seq, row in enumerate((row for change in changes for row in change.rows), 1)
    ]
    if len(found) != head.seq:
        raise Damaged(f"rows of the journal of `{head.scope}` are missing")
    return found


def _write_scope(
    bucket: Bucket,
    layout: Layout,
    contents: StateDump,
    name: str,
    rows: Sequence[Row],
    stored: Sequence[StoredRecord],
    nonce: Callable[[], str],
) -> None:
    """Its rows, then all its records with the last of them; the base has them, too: readers begin there."""
    chunks = [rows[start : start + _ROWS] for start in range(0, len(rows), _ROWS)] or [()]
    folded, lines = ScopeState(ScopeSummary(contents.lineage)), []
    for number, chunk in enumerate(chunks, 1):
        put = stored if number == len(chunks) else ()
        change = Change(number, nonce(), [Hashed(row.columns, row.hash) for row in chunk], put)
        folded.take(change, read(folded.marks, folded.stored.get, change, name))
        lines.append(change.to_line())
    folded.marks = replace(folded.marks, serial=contents.head(name).serial)
    head = Head(name, contents.lineage, serial=1, nonce=nonce(), epoch=contents.head(name).epoch)
    head = Files(bucket, layout).copied(head.of(folded.marks), lines, folded)
    writes.create(bucket, layout.head(name), heads.encode(head, ()))
