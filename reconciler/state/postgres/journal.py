"""The journal in PostgreSQL: for each scope a chain of rows, each with the hash before it (`chain`)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from reconciler.core.errors import named
from reconciler.state.chain import Broken, Chains, row_hash
from reconciler.state.codec import EntryColumns, decode_entry
from reconciler.state.contents import Contents
from reconciler.state.postgres.heads import Head
from reconciler.state.postgres.line import Row, Statement
from reconciler.state.postgres.problems import Damaged
from reconciler.state.postgres.schema import Identity
from reconciler.state.store import JournalEntry

COLUMNS = (
    "j.row, j.scope, j.seq, j.previous, j.hash, j.run, j.event, j.at, j.address, j.step, j.attempt, j.data"
)
SELECT = f"SELECT {COLUMNS} FROM reconcile.journal j WHERE j.state = %s ORDER BY j.row"
_INSERT = """INSERT INTO reconcile.journal
    (state, scope, seq, previous, hash, run, event, at, address, step, attempt, data)
    SELECT %s, scope, seq, previous, hash, run, event, at, address, step, attempt, data
    FROM unnest(%s::text[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[],
        %s::text[], %s::text[], %s::int[], %s::text[]) WITH ORDINALITY
        AS new(scope, seq, previous, hash, run, event, at, address, step, attempt, data, number)
    ORDER BY number"""


def append(head: Head, columns: EntryColumns) -> Row:
    """A row for `insert`: `columns` at the end of the chain of `head`, which ends with it then."""
    previous = head.hash
    head.seq += 1
    head.hash = row_hash(previous, head.seq, columns[:-1], columns[-1].encode(), head.scope)
    return (head.scope, head.seq, previous, head.hash, *columns)


def insert(state: int, rows: Iterable[Row]) -> Statement:
    return _INSERT, [state, *map(list, zip(*rows, strict=True))]


def rows_of(contents: Contents) -> list[Row]:
    """For `insert`: each with the hash before it."""
    ends, found = dict[str, str](), list[Row]()
    for row in contents.rows:
        found.append((row.scope, row.seq, ends.get(row.scope, contents.lineage), row.hash, *row.columns))
        ends[row.scope] = row.hash
    return found


def checked(row: Sequence[Any]) -> EntryColumns:
    """The entry of a row of `COLUMNS`. Raises Damaged where that is not what was written."""
    _, scope, seq, previous, hash, *columns = row
    if row_hash(previous, seq, columns[:-1], columns[-1].encode(), scope) != hash:
        raise Damaged(f"row {seq} of the journal of {named(scope)} is not what was written")
    return entry_of(row)


def entry_of(row: Sequence[Any]) -> EntryColumns:
    """The entry of a row of `COLUMNS`, which is not checked."""
    *_, run, event, at, address, step, attempt, data = row
    return run, event, at, address, step, attempt, data


def followed(
    identity: Identity, rows: Iterable[Row], ends: Mapping[str, Head]
) -> Iterator[tuple[str, int, EntryColumns]]:
    """Scope, seq and entry of all rows of `COLUMNS`, oldest first, which must end at `ends`.

    Raises Damaged at the first that does not follow from those before.
    """
    chains = Chains(identity.lineage)
    for row in rows:
        follow(chains, row)
        yield row[1], row[2], entry_of(row)
    for scope in {*chains.ends, *ends}:
        if scope not in ends or chains.end(scope) != (ends[scope].seq, ends[scope].hash):
            raise Damaged(f"the journal of {named(scope)} does not end where it should")


def follow(chains: Chains, row: Row) -> None:
    """Take in a row of `COLUMNS`. Raises Damaged where it does not follow from those before."""
    _, scope, seq, _, hash, *columns, data = row
    try:
        chains.follow(seq, columns, data.encode(), scope, hash)
    except Broken as broken:
        raise Damaged(f"row {seq} of the journal of {named(scope)} {broken}") from None


def entries(
    identity: Identity, rows: Iterable[Row], ends: Mapping[str, Head]
) -> list[tuple[str, JournalEntry]]:
    """All entries, decoded, each with its scope. Raises Damaged."""
    followed_rows = followed(identity, rows, ends)
    return [(scope, decode_entry(*row[:-1], row[-1].encode())) for scope, _, row in followed_rows]
