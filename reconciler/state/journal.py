"""The journal in SQLite: a chain of rows, each hashed together with the hash before it.

The first row continues from the state's lineage, so that no journal passes for another's.
The tables `open_intents` and `plans_run` are what the chain amounts to, kept in the same
transaction; `verify` derives them again.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from reconciler.errors import StoreError
from reconciler.state.codec import EntryColumns, decode_entry
from reconciler.state.database import Damaged
from reconciler.state.store import Event, JournalEntry

# PENDING closes too: the call succeeded, and only its wait is not over.
_CLOSING = frozenset({Event.DONE, Event.FAILED, Event.SETTLED, Event.PENDING})

# The data as bytes: what a flipped bit made of the text need not be UTF-8.
_READ = "SELECT run, event, at, address, step, attempt, CAST(data AS BLOB), hash, seq FROM journal"

IntentKey = tuple[str, str, int]  # run, step, attempt


def append(connection: sqlite3.Connection, lineage: str, entries: Iterable[EntryColumns]) -> None:
    """Add rows to the chain, in the caller's transaction. Raises StoreError for an intent that is open."""
    newest = connection.execute("SELECT seq, hash FROM journal ORDER BY seq DESC LIMIT 1").fetchone()
    seq, hash = newest or (0, lineage)
    for columns in entries:
        seq += 1
        hash = _chain(hash, seq, columns[:-1], columns[-1].encode())
        connection.execute("INSERT INTO journal VALUES (?,?,?,?,?,?,?,?,?)", (seq, *columns, hash))
        run, event, _, _, step, attempt, data = columns
        if event == Event.INTENT:
            _open_intent(connection, (run, step, attempt), seq)
        elif event in _CLOSING:
            connection.execute(
                "DELETE FROM open_intents WHERE run = ? AND step = ? AND attempt = ?", (run, step, attempt)
            )
        elif event == Event.RUN_STARTED and (plan := json.loads(data).get("plan")):
            connection.execute("INSERT OR IGNORE INTO plans_run VALUES (?)", (plan,))


def open_intents(connection: sqlite3.Connection, lineage: str) -> tuple[JournalEntry, ...]:
    """The intents without an outcome, oldest first. Raises Damaged when one of their rows was changed."""
    found = []
    keys = connection.execute("SELECT run, step, attempt, seq FROM open_intents ORDER BY seq").fetchall()
    for run, step, attempt, seq in keys:
        entry = _read(connection, lineage, seq)
        if (entry.event, entry.run, entry.step, entry.attempt) != (Event.INTENT, run, step, attempt):
            raise Damaged(f"journal row {seq} is not the intent it should be")
        found.append(entry)
    return tuple(found)


def plans_run(connection: sqlite3.Connection) -> frozenset[str]:
    return frozenset(plan for (plan,) in connection.execute("SELECT plan FROM plans_run"))


def verify_newest(connection: sqlite3.Connection, lineage: str) -> None:
    """Raises Damaged when the newest row was changed, or does not follow the one before."""
    (newest,) = connection.execute("SELECT max(seq) FROM journal").fetchone()
    if newest is not None:
        _read(connection, lineage, newest)


def verify(connection: sqlite3.Connection, lineage: str) -> None:
    """Raises Damaged naming the first row that was changed, or is missing, in the whole journal."""
    previous, expected = lineage, 1
    open_now: set[IntentKey] = set()
    plans: set[str] = set()
    for *columns, data, hash, seq in connection.execute(f"{_READ} ORDER BY seq"):
        if seq != expected:
            raise Damaged(f"journal row {expected} is missing")
        _check(previous, seq, columns, data, hash)
        previous, expected = hash, seq + 1
        run, event, _, _, step, attempt = columns
        if event == Event.INTENT:
            open_now.add((run, step, attempt))
        elif event in _CLOSING:
            open_now.discard((run, step, attempt))
        elif event == Event.RUN_STARTED and (plan := json.loads(data).get("plan")):
            plans.add(plan)
    if open_now != set(connection.execute("SELECT run, step, attempt FROM open_intents")):
        raise Damaged("the list of open intents is not what the journal says")
    if plans != plans_run(connection):
        raise Damaged("the list of plans run is not what the journal says")


def _open_intent(connection: sqlite3.Connection, key: IntentKey, seq: int) -> None:
    try:
        connection.execute("INSERT INTO open_intents VALUES (?,?,?,?)", (*key, seq))
    except sqlite3.IntegrityError:
        run, step, attempt = key
        raise StoreError(
            f"attempt {attempt} of step {step} in run {run} has begun already and its outcome is not known"
        ) from None


def _read(connection: sqlite3.Connection, lineage: str, seq: int) -> JournalEntry:
    """One row, checked against the hash before it."""
    row = connection.execute(f"{_READ} WHERE seq = ?", (seq,)).fetchone()
    if row is None:
        raise Damaged(f"journal row {seq} is missing")
    before = connection.execute("SELECT hash FROM journal WHERE seq = ?", (seq - 1,)).fetchone()
    _check(before[0] if before else lineage, seq, row[:6], row[6], row[7])
    return decode_entry(*row[:7])


def _check(previous: str, seq: int, columns: Sequence[Any], data: bytes, hash: str) -> None:
    if _chain(previous, seq, columns, data) != hash:
        raise Damaged(f"journal row {seq} is not what was written")


def _chain(previous: str, seq: int, columns: Sequence[Any], data: bytes) -> str:
    """SHA-256 over the hash before and the row; JSON keeps the columns apart."""
    head = json.dumps([previous, seq, *columns], separators=(",", ":"))
    return hashlib.sha256(head.encode() + b"\n" + data).hexdigest()
