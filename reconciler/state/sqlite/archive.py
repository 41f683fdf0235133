"""Old journal rows of a SQLite state, packed in segments beside the journal: see `state.archive`.

`archive` has the segments, `archived` lists them with the hashes of each, `archive_end` says what all their
rows amount to. The last two are small tables under the check values: they are checked whenever the state is
read, and so are the ids of plans that began in a segment. The hash of its rows is checked when these are
read, and with each backup. Rows come here once they were found to follow from those before, so that nothing
damaged is ever packed.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from reconciler.state import archive as packing
from reconciler.state.chain import Broken, Chains
from reconciler.state.codec import RowColumns
from reconciler.state.rules import Folding, View
from reconciler.state.sqlite import checks
from reconciler.state.sqlite.checks import Checks
from reconciler.state.sqlite.database import Damaged

TABLES = ("archived", "archive_end")
_PAGES = 20_000  # how many pages are given back at once: what a moment's work makes free
# The data as bytes: what a flipped bit made of the text need not be UTF-8.
# `rowid` is the column `row`, which has another name in files of older versions.
READ = (
    "SELECT run, event, at, address, step, attempt, CAST(data AS BLOB), hash, seq, scope, rowid FROM journal"
)

Segment = tuple[int, int, str, str]  # its first and its last row, the hashes of its plans and of its rows
Row = tuple[str, str, str, str | None, str, int, bytes, str, int, str, int]  # as `READ` has them


def last_row(connection: sqlite3.Connection) -> int:
    """The newest row in the archive; 0 while there is none."""
    (last,) = connection.execute("SELECT max(last) FROM archived").fetchone()
    return int(last or 0)


def plans_run(connection: sqlite3.Connection) -> frozenset[str]:
    """The plans that began in rows of the archive. Raises Damaged."""
    found = dict(connection.execute("SELECT first, plans FROM archive"))
    for first, last, hash, _ in _listed(connection):
        _require(first, last, found.get(first), hash)
    return frozenset(plan for plans in found.values() for plan in json.loads(plans))


def end(connection: sqlite3.Connection, current: Checks) -> tuple[Chains, Folding[int]]:
    """Where the chains go on after the archive, and what its rows amount to, but for the plans they began."""
    found = {name: json.loads(value) for name, value in connection.execute("SELECT * FROM archive_end")}
    chains = Chains(current.lineage)
    if not found:
        return chains, Folding()
    chains.rows = found["rows"]
    chains.ends = {scope: (seq, hash) for scope, (seq, hash) in found["ends"].items()}
    view = View(
        {(run, step, attempt): row for run, step, attempt, row in found["open_intents"]},
        unclaimed=found["unclaimed"],
        half_moved=found["half_moved"],
        platform=found["platform"],
    )
    return chains, Folding(view)


def rows(connection: sqlite3.Connection) -> Iterator[Row]:
    """All of them, oldest first. Raises Damaged at the first segment that is not what was packed."""
    for segment in _listed(connection):
        yield from unpacked(_body(connection, segment))


def row(connection: sqlite3.Connection, number: int) -> Row | None:
    """None where the archive does not have it. Raises Damaged."""
    for segment in _listed(connection):
        if segment[0] <= number <= segment[1]:
            return unpacked(_body(connection, segment))[number - segment[0]]
    return None


def unpacked(body: bytes) -> list[Row]:
    """The rows of one segment. Raises ValueError for another text."""
    return [
        (run, event, at, address, step, attempt, data.encode(), hash, seq, scope, row)
        for row, scope, seq, run, event, at, address, step, attempt, data, hash in packing.unpack(body)
    ]


def verify(connection: sqlite3.Connection) -> None:
    """Raises Damaged when a segment is not what was packed, byte by byte, or is missing."""
    for segment in _listed(connection):
        _body(connection, segment)


def extend(connection: sqlite3.Connection, path: Path, most: int) -> None:
    """Pack rows of the journal that are no longer new, some `most` of them; their space is given back.

    Each segment is one transaction, so that others write in between. Raises Damaged, and packs nothing, where
    a row does not follow from those before.
    """
    while most > 0 and _due(connection):
        with checks.writing(connection, path, (*TABLES, "plans_run")) as current:
            last = _due(connection)  # another process may have been faster
            if last:
                most -= _pack(connection, current, last)
    # A script, because `execute` takes one step of this statement, which is one page.
    connection.executescript(f"PRAGMA incremental_vacuum({_PAGES})")


def _due(connection: sqlite3.Connection) -> int:
    """The last row of the next segment; 0 where none is due yet."""
    sizes = "SELECT row, length(CAST(data AS BLOB)) FROM journal"
    kept, oldest = 0, 0
    for row, size in connection.execute(f"{sizes} ORDER BY row DESC LIMIT ?", (packing.KEPT_ROWS,)):
        kept += size
        if kept > packing.KEPT_BYTES:
            break
        oldest = row
    packed = 0
    found = connection.execute(f"{sizes} WHERE row < ? ORDER BY row LIMIT ?", (oldest, packing.SEGMENT_ROWS))
    for count, (row, size) in enumerate(found, 1):
        packed += size
        if packed >= packing.SEGMENT_BYTES or count == packing.SEGMENT_ROWS:
            return int(row)
    return 0


def _pack(connection: sqlite3.Connection, current: Checks, last: int) -> int:
    """Move the rows up to `last` into one segment; says how many. In the caller's transaction."""
    chains, folding = end(connection, current)
    first, found = chains.rows + 1, []
    for *columns, data, hash, seq, scope, row in connection.execute(
        f"{READ} WHERE rowid <= ? ORDER BY rowid", (last,)
    ):
        follow(chains, row, columns, data, hash, seq, scope)
        folding.take(columns_of(columns, data), row)
        found.append((row, scope, seq, *columns, data.decode(), hash))
    began = sorted(folding.view.plans_run)
    body, plans = packing.pack(found), json.dumps(began)
    connection.execute("INSERT INTO archive VALUES (?,?,?)", (first, plans, body))
    hashes = _hash(plans.encode()), _hash(body)
    connection.execute("INSERT INTO archived VALUES (?,?,?,?)", (first, last, *hashes))
    connection.executemany("INSERT OR REPLACE INTO archive_end VALUES (?,?)", _end(chains, folding))
    connection.execute("DELETE FROM journal WHERE row <= ?", (last,))
    connection.executemany("DELETE FROM plans_run WHERE plan = ?", ((plan,) for plan in began))
    return len(found)


def follow(
    chains: Chains, row: int, columns: Sequence[Any], data: bytes, hash: str, seq: int, scope: str
) -> None:
    """Take in the row. Raises Damaged where it does not follow from those before."""
    if row != chains.rows + 1:
        raise Damaged(f"journal row {chains.rows + 1} is missing")
    try:
        chains.follow(seq, columns, data, scope, hash)
    except Broken as broken:
        raise Damaged(f"journal row {row} {broken}") from None


def columns_of(columns: Sequence[Any], data: bytes) -> RowColumns:
    run, event, at, address, step, attempt = columns
    return run, event, at, address, step, attempt, data


def _end(chains: Chains, folding: Folding[int]) -> list[tuple[str, str]]:
    """The rows of `archive_end`."""
    view = folding.view
    values = {
        "rows": chains.rows,
        "ends": chains.ends,
        "open_intents": [[*key, row] for key, row in view.open_intents.items()],
        "unclaimed": view.unclaimed,
        "half_moved": view.half_moved,
        "platform": view.platform,
    }
    return [(name, json.dumps(value)) for name, value in values.items()]


def _listed(connection: sqlite3.Connection) -> list[Segment]:
    return connection.execute("SELECT first, last, plans, body FROM archived ORDER BY first").fetchall()


def _body(connection: sqlite3.Connection, segment: Segment) -> bytes:
    first, last, _, hash = segment
    found = connection.execute("SELECT body FROM archive WHERE first = ?", (first,)).fetchone()
    return _require(first, last, found[0] if found is not None else None, hash)


def _require(first: int, last: int, found: bytes | str | None, hash: str) -> bytes:
    """What has this hash. Raises Damaged for anything else."""
    if found is None:
        raise Damaged(f"the archive of journal rows {first} to {last} is missing")
    content = found.encode() if isinstance(found, str) else bytes(found)
    if _hash(content) != hash:
        raise Damaged(f"the archive of journal rows {first} to {last} is not what was written")
    return content


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
