"""The journal in SQLite: for each scope a chain of rows (`state.chain`).

A scope's head shows that nothing of its chain is missing. `row` is the order in which one file got its rows,
`seq` a row's place in its chain. The tables `open_intents`, `plans_run`, `unclaimed`, `half_moved` and
`facts` are what the chains amount to, kept in the same transaction; `verify` derives them again.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any

from msgspec.structs import replace

from reconciler.core.errors import named
from reconciler.state import rules
from reconciler.state.chain import Chains, row_hash
from reconciler.state.codec import EntryColumns, RowColumns, decode_entry
from reconciler.state.history import runs_since
from reconciler.state.rules import Effect, Folding, View
from reconciler.state.sqlite import archive
from reconciler.state.sqlite.checks import Checks
from reconciler.state.sqlite.database import Damaged
from reconciler.state.sqlite.heads import Head
from reconciler.state.store import Event, JournalEntry

_OPEN_INTENTS = "SELECT run, step, attempt, row FROM open_intents ORDER BY row"


def append(
    connection: sqlite3.Connection, checks: Checks, head: Head, scope: str, entries: Iterable[EntryColumns]
) -> None:
    """Add rows to the chain of `scope`, which ends with `head`, in the caller's transaction.

    Raises StoreError for an intent that is open.
    """
    for columns in entries:
        checks.rows += 1
        head.seq += 1
        head.hash = row_hash(head.hash, head.seq, columns[:-1], columns[-1].encode(), scope)
        connection.execute(
            "INSERT INTO journal VALUES (?,?,?,?,?,?,?,?,?,?,?)",
            (checks.rows, *columns, head.hash, scope, head.seq),
        )
        keep_up(connection, rules.effect_of_row(columns), checks.rows)


def open_intents(connection: sqlite3.Connection, checks: Checks) -> tuple[JournalEntry, ...]:
    """The intents without an outcome, oldest first. Raises Damaged when one of their rows was changed."""
    found = []
    for run, step, attempt, row in connection.execute(_OPEN_INTENTS).fetchall():
        entry = _read(connection, checks, row)
        if (entry.event, entry.run, entry.step, entry.attempt) != (Event.INTENT, run, step, attempt):
            raise Damaged(f"journal row {row} is not the intent it should be")
        found.append(entry)
    return tuple(found)


def plans_run(connection: sqlite3.Connection) -> frozenset[str]:
    newer = frozenset(plan for (plan,) in connection.execute("SELECT plan FROM plans_run"))
    return newer | archive.plans_run(connection)


def unclaimed(connection: sqlite3.Connection, checks: Checks) -> tuple[JournalEntry, ...]:
    """The entries that name objects nobody has decided about, oldest first. Raises Damaged."""
    return _listed(connection, checks, "SELECT id, row FROM unclaimed ORDER BY row", "unclaimed")


def half_moved(connection: sqlite3.Connection, checks: Checks) -> tuple[JournalEntry, ...]:
    """The entries of moves to another scope whose source is not removed yet, oldest first. Raises Damaged."""
    return _listed(connection, checks, "SELECT source, row FROM half_moved ORDER BY row", "moved_from")


def platform(connection: sqlite3.Connection) -> str:
    """The platform's address; "" while none was recorded."""
    found = connection.execute("SELECT value FROM facts WHERE name = 'platform'").fetchone()
    return found[0] if found is not None else ""


def verify_newest(connection: sqlite3.Connection, checks: Checks, heads: Mapping[str, Head]) -> None:
    """Raises Damaged when the newest row of a chain was changed, is missing, or does not follow its head."""
    before = archive.last_row(connection)
    rows = [row for (row,) in connection.execute("SELECT row FROM journal ORDER BY row")]
    newest = rows[-1] if rows else before
    if newest != checks.rows:
        raise Damaged(f"the journal ends with row {newest}, not {checks.rows}")
    for expected, row in enumerate(rows, before + 1):
        if row != expected:
            raise Damaged(f"journal row {expected} is missing")
    ends = {
        scope: (row, hash)
        for scope, row, hash in connection.execute(
            """SELECT heads.scope, journal.row, journal.hash FROM heads JOIN journal
            ON journal.scope = heads.scope AND journal.seq = heads.seq"""
        )
    }
    archived = archive.end(connection, checks)[0].ends
    for scope, head in heads.items():
        if not head.seq:
            continue
        if scope not in ends and archived.get(scope) == (head.seq, head.hash):
            continue
        row, hash = ends.get(scope, (0, ""))
        if not row:
            raise Damaged(f"the journal of {named(scope)} does not end where it should")
        _read(connection, checks, row)
        if hash != head.hash:
            raise Damaged(f"journal row {row} is not the one that was written")


def verify(
    connection: sqlite3.Connection, checks: Checks, heads: Mapping[str, Head], *, whole: bool = True
) -> None:
    """Raises Damaged naming the first row that does not follow from those before, or a list that is wrong.

    Not `whole`: the rows in the archive are compared, byte by byte, with what was found to follow when they
    came there, and not followed again.
    """
    chains, folding = Chains(checks.lineage), Folding[int]()
    if not whole:
        archive.verify(connection)
        chains, folding = archive.end(connection, checks)
    archived = archive.last_row(connection) if whole else 0
    for row, _, columns in _rows(connection, checks, heads, chains):
        folding.take(columns, row)
        if row == archived:
            _verify_archive_end(connection, checks, chains, folding)
    _verify_lists(connection, folding.view)


def export(connection: sqlite3.Connection) -> Iterator[archive.Row]:
    """All rows, oldest first, as `archive.READ` has them. Raises Damaged."""
    return chain(archive.rows(connection), connection.execute(f"{archive.READ} ORDER BY rowid"))


def entries(
    connection: sqlite3.Connection, checks: Checks, heads: Mapping[str, Head], since: datetime | None
) -> list[tuple[str, JournalEntry]]:
    """See `Store.journal`. Raises Damaged: what was changed is not shown as if it had been written."""
    rows = list(_rows(connection, checks, heads, Chains(checks.lineage)))
    times = [(columns[0], datetime.fromisoformat(columns[2])) for _, _, columns in rows]
    wanted = runs_since(times, since) if since is not None else frozenset()
    return [
        (scope, decode_entry(*columns))
        for (_, scope, columns), (run, at) in zip(rows, times, strict=True)
        if since is None or run in wanted or at >= since
    ]


def _rows(
    connection: sqlite3.Connection, checks: Checks, heads: Mapping[str, Head], chains: Chains
) -> Iterator[tuple[int, str, RowColumns]]:
    """Row, scope and columns of all rows after those that `chains` knows, each found to follow from those
    before. Raises Damaged.
    """
    found = export(connection)
    if chains.rows:
        found = connection.execute(f"{archive.READ} ORDER BY rowid")
    for *columns, data, hash, seq, scope, row in found:
        archive.follow(chains, row, columns, data, hash, seq, scope)
        yield row, scope, archive.columns_of(columns, data)
    if chains.rows != checks.rows:
        raise Damaged(f"the journal ends with row {chains.rows}, not {checks.rows}")
    for scope in {*heads, *chains.ends}:
        if scope not in heads or chains.end(scope) != (heads[scope].seq, heads[scope].hash):
            raise Damaged(f"the journal of {named(scope)} does not end where it should")


def _verify_archive_end(
    connection: sqlite3.Connection, checks: Checks, chains: Chains, folding: Folding[int]
) -> None:
    known, stored = archive.end(connection, checks)
    view = replace(stored.view, plans_run=archive.plans_run(connection))
    if (known.ends, view) != (chains.ends, folding.view):
        raise Damaged("the end of the archive is not what its rows say")


def _verify_lists(connection: sqlite3.Connection, view: View[int]) -> None:
    stored = {(run, step, attempt): row for run, step, attempt, row in connection.execute(_OPEN_INTENTS)}
    if view.open_intents != stored:
        raise Damaged("the list of open intents is not what the journal says")
    if view.plans_run | archive.plans_run(connection) != plans_run(connection):
        raise Damaged("the list of plans run is not what the journal says")
    if view.unclaimed != dict(connection.execute("SELECT id, row FROM unclaimed")):
        raise Damaged("the list of unclaimed objects is not what the journal says")
    if view.half_moved != dict(connection.execute("SELECT source, row FROM half_moved")):
        raise Damaged("the list of moves to another scope is not what the journal says")
    if view.platform != platform(connection):
        raise Damaged("the platform's address is not what the journal says")


def keep_up(connection: sqlite3.Connection, effect: Effect, row: int) -> None:
    """Bring the effect of `row` into the tables."""
    if effect.opens is not None:
        try:
            connection.execute("INSERT INTO open_intents VALUES (?,?,?,?)", (*effect.opens, row))
        except sqlite3.IntegrityError:
            raise rules.already_open(effect.opens) from None
    if effect.closes is not None:
        connection.execute(
            "DELETE FROM open_intents WHERE run = ? AND step = ? AND attempt = ?", effect.closes
        )
    for plan in effect.plans:
        connection.execute("INSERT OR IGNORE INTO plans_run VALUES (?)", (plan,))
    if effect.unclaimed:
        connection.execute("INSERT OR REPLACE INTO unclaimed VALUES (?,?)", (effect.unclaimed, row))
    if effect.claimed:
        connection.execute("DELETE FROM unclaimed WHERE id = ?", (effect.claimed,))
    if effect.moved_from:
        connection.execute("INSERT OR REPLACE INTO half_moved VALUES (?,?)", (effect.moved_from, row))
    if effect.moved_away:
        connection.execute("DELETE FROM half_moved WHERE source = ?", (effect.moved_away,))
    if effect.platform:
        connection.execute("INSERT OR REPLACE INTO facts VALUES ('platform', ?)", (effect.platform,))


def _listed(
    connection: sqlite3.Connection, checks: Checks, query: str, field: str
) -> tuple[JournalEntry, ...]:
    """The entries of a list whose key is what `field` of their data says."""
    found = connection.execute(query).fetchall()
    entries = tuple(_read(connection, checks, row) for _, row in found)
    for (key, row), entry in zip(found, entries, strict=True):
        if entry.data.get(field) != key:
            raise Damaged(f"journal row {row} is not about `{key}`, as it should be")
    return entries


def _read(connection: sqlite3.Connection, checks: Checks, row: int) -> JournalEntry:
    """One row, checked against the hash before it, or with all of its segment."""
    found = connection.execute(f"{archive.READ} WHERE rowid = ?", (row,)).fetchone()
    if found is None:
        packed = archive.row(connection, row)
        if packed is None:
            raise Damaged(f"journal row {row} is missing")
        return decode_entry(*packed[:7])
    *columns, data, hash, seq, scope, _ = found
    _check(_hash_before(connection, checks, row, seq, scope), row, seq, columns, data, scope, hash)
    return decode_entry(*found[:7])


def _hash_before(connection: sqlite3.Connection, checks: Checks, row: int, seq: int, scope: str) -> str:
    if seq == 1:
        return checks.lineage
    before = connection.execute(
        "SELECT hash FROM journal WHERE scope = ? AND seq = ?", (scope, seq - 1)
    ).fetchone()
    if before is None:
        known = archive.end(connection, checks)[0]
        if known.end(scope)[0] != seq - 1:
            raise Damaged(f"the journal row before row {row} is missing")
        before = known.end(scope)[1:]
    return str(before[0])


def _check(
    previous: str, row: int, seq: int, columns: Sequence[Any], data: bytes, scope: str, hash: str
) -> None:
    if row_hash(previous, seq, columns, data, scope) != hash:
        raise Damaged(f"journal row {row} is not what was written")
