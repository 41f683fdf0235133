"""The journal in SQLite: a chain of rows, each hashed together with the hash before it.

The first row continues from the state's lineage, so that no journal passes for another's. There is one chain
for all scopes, since one file has one writer at a time, and one end shows that nothing of it is missing.
The tables `open_intents`, `plans_run`, `unclaimed` and `facts` are what the chain amounts to, kept in the
same transaction; `verify` derives them again.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from reconciler.state import rules
from reconciler.state.codec import EntryColumns, decode_entry
from reconciler.state.rules import Effect, View
from reconciler.state.sqlite.checks import Checks
from reconciler.state.sqlite.database import Damaged
from reconciler.state.store import Event, JournalEntry

# The data as bytes: what a flipped bit made of the text need not be UTF-8.
READ = "SELECT run, event, at, address, step, attempt, CAST(data AS BLOB), hash, seq, scope FROM journal"
_OPEN_INTENTS = "SELECT run, step, attempt, seq FROM open_intents ORDER BY seq"


def append(
    connection: sqlite3.Connection, checks: Checks, scope: str, entries: Iterable[EntryColumns]
) -> None:
    """Add rows of `scope` to the chain, in the caller's transaction.

    Raises StoreError for an intent that is open.
    """
    seq, hash = checks.head_seq, checks.head_hash
    for columns in entries:
        seq += 1
        hash = chain(hash, seq, columns[:-1], columns[-1].encode(), scope)
        connection.execute("INSERT INTO journal VALUES (?,?,?,?,?,?,?,?,?,?)", (seq, *columns, hash, scope))
        _keep_up(connection, rules.effect_of_row(columns), seq)
    checks.head_seq, checks.head_hash = seq, hash


def open_intents(connection: sqlite3.Connection, lineage: str) -> tuple[JournalEntry, ...]:
    """The intents without an outcome, oldest first. Raises Damaged when one of their rows was changed."""
    found = []
    keys = connection.execute(_OPEN_INTENTS).fetchall()
    for run, step, attempt, seq in keys:
        entry = _read(connection, lineage, seq)
        if (entry.event, entry.run, entry.step, entry.attempt) != (Event.INTENT, run, step, attempt):
            raise Damaged(f"journal row {seq} is not the intent it should be")
        found.append(entry)
    return tuple(found)


def plans_run(connection: sqlite3.Connection) -> frozenset[str]:
    return frozenset(plan for (plan,) in connection.execute("SELECT plan FROM plans_run"))


def unclaimed(connection: sqlite3.Connection, lineage: str) -> tuple[JournalEntry, ...]:
    """The entries that name objects nobody has decided about, oldest first. Raises Damaged."""
    found = connection.execute("SELECT id, seq FROM unclaimed ORDER BY seq").fetchall()
    entries = tuple(_read(connection, lineage, seq) for _, seq in found)
    for (id, seq), entry in zip(found, entries, strict=True):
        if entry.data.get("unclaimed") != id:
            raise Damaged(f"journal row {seq} is not about `{id}`, as it should be")
    return entries


def platform(connection: sqlite3.Connection) -> str:
    """The platform's address; "" while none was recorded."""
    found = connection.execute("SELECT value FROM facts WHERE name = 'platform'").fetchone()
    return found[0] if found is not None else ""


def verify_newest(connection: sqlite3.Connection, checks: Checks) -> None:
    """Raises Damaged when the newest row was changed, is missing, or does not follow the one before."""
    (newest,) = connection.execute("SELECT max(seq) FROM journal").fetchone()
    if (newest or 0) != checks.head_seq:
        raise Damaged(f"the journal ends with row {newest or 0}, not {checks.head_seq}")
    if newest is not None:
        _read(connection, checks.lineage, newest)
        (hash,) = connection.execute("SELECT hash FROM journal WHERE seq = ?", (newest,)).fetchone()
        if hash != checks.head_hash:
            raise Damaged(f"journal row {newest} is not the one that was written")


def verify(connection: sqlite3.Connection, checks: Checks) -> None:
    """Raises Damaged naming the first row that was changed, or is missing, in the whole journal."""
    previous, expected = checks.lineage, 1
    view: View[int] = View()
    for *columns, data, hash, seq, scope in connection.execute(f"{READ} ORDER BY seq"):
        if seq != expected:
            raise Damaged(f"journal row {expected} is missing")
        _check(previous, seq, columns, data, scope, hash)
        previous, expected = hash, seq + 1
        view = rules.after(view, rules.effect_of_row((*columns, data)), seq)
    if (expected - 1, previous) != (checks.head_seq, checks.head_hash):
        raise Damaged(f"the journal ends with row {expected - 1}, not {checks.head_seq}")
    stored = {(run, step, attempt): seq for run, step, attempt, seq in connection.execute(_OPEN_INTENTS)}
    if view.open_intents != stored:
        raise Damaged("the list of open intents is not what the journal says")
    if view.plans_run != plans_run(connection):
        raise Damaged("the list of plans run is not what the journal says")
    if view.unclaimed != dict(connection.execute("SELECT id, seq FROM unclaimed")):
        raise Damaged("the list of unclaimed objects is not what the journal says")
    if view.platform != platform(connection):
        raise Damaged("the platform's address is not what the journal says")


def _keep_up(connection: sqlite3.Connection, effect: Effect, seq: int) -> None:
    """Bring the effect of row `seq` into the tables."""
    if effect.opens is not None:
        try:
            connection.execute("INSERT INTO open_intents VALUES (?,?,?,?)", (*effect.opens, seq))
        except sqlite3.IntegrityError:
            raise rules.already_open(effect.opens) from None
    if effect.closes is not None:
        connection.execute(
            "DELETE FROM open_intents WHERE run = ? AND step = ? AND attempt = ?", effect.closes
        )
    if effect.plan:
        connection.execute("INSERT OR IGNORE INTO plans_run VALUES (?)", (effect.plan,))
    if effect.unclaimed:
        connection.execute("INSERT OR REPLACE INTO unclaimed VALUES (?,?)", (effect.unclaimed, seq))
    if effect.claimed:
        connection.execute("DELETE FROM unclaimed WHERE id = ?", (effect.claimed,))
    if effect.platform:
        connection.execute("INSERT OR REPLACE INTO facts VALUES ('platform', ?)", (effect.platform,))


def _read(connection: sqlite3.Connection, lineage: str, seq: int) -> JournalEntry:
    """One row, checked against the hash before it."""
    row = connection.execute(f"{READ} WHERE seq = ?", (seq,)).fetchone()
    if row is None:
        raise Damaged(f"journal row {seq} is missing")
    before = connection.execute("SELECT hash FROM journal WHERE seq = ?", (seq - 1,)).fetchone()
    _check(before[0] if before else lineage, seq, row[:6], row[6], row[9], row[7])
    return decode_entry(*row[:7])


def _check(previous: str, seq: int, columns: Sequence[Any], data: bytes, scope: str, hash: str) -> None:
    if chain(previous, seq, columns, data, scope) != hash:
        raise Damaged(f"journal row {seq} is not what was written")


def chain(previous: str, seq: int, columns: Sequence[Any], data: bytes, scope: str) -> str:
    """SHA-256 over the hash before and the row; JSON keeps the columns apart.

    Rows of the whole state are hashed like those of versions that knew no scopes.
    """
    head = json.dumps([previous, seq, *columns, *filter(None, [scope])], separators=(",", ":"))
    return hashlib.sha256(head.encode() + b"\n" + data).hexdigest()
