"""What versions 2 and 3 had: one chain and one serial for all scopes, in check values of another shape.

Migrations use it, and who reads a damaged file; it stays as it was, since it reads what is written already.
"""

import json
import sqlite3
from collections import Counter
from typing import Any

from reconciler.state.sqlite import checks, heads, records
from reconciler.state.sqlite.checks import LEASES, Checks, digest_of, sha256
from reconciler.state.sqlite.database import Damaged


def first_checks(connection: sqlite3.Connection) -> None:
    """To version 2: bring check values into a state that has none. What it holds now is taken as it is."""
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    newest = connection.execute("SELECT seq, hash FROM journal ORDER BY seq DESC LIMIT 1").fetchone()
    (records,) = connection.execute("SELECT count(*) FROM records").fetchone()
    lineage = meta.get("lineage", "")
    head_seq, head_hash = newest or (0, lineage)
    tables = ("open_intents", "plans_run", "unclaimed", *LEASES)
    values = {
        "version": 0,
        "records": records,
        "head_seq": head_seq,
        "head_hash": head_hash,
        "key": None,
        "tables": {table: digest_of(connection, table) for table in tables},
    }
    _write(connection, lineage, meta["serial"], values)


def cover_facts(connection: sqlite3.Connection) -> None:
    """To version 3: bring the table `facts` under the check values."""
    lineage, serial, values = _read(connection)
    values["version"] += 1  # what was seen of the state before is older
    values["tables"]["facts"] = digest_of(connection, "facts")
    _write(connection, lineage, serial, values)


def begin_chains(connection: sqlite3.Connection) -> None:
    """To version 4: each scope goes on from where the one chain and the one serial ended."""
    lineage, serial, values = _read(connection)
    connection.execute("DELETE FROM meta WHERE key = 'serial'")
    current = Checks(
        lineage,
        values["version"] + 1,  # what was seen of the state before is older
        rows=values["head_seq"],
        serial=serial,
        trunk_seq=values["head_seq"],
        trunk_hash=values["head_hash"],
        trunk_serial=serial,
        key=values["key"],
        tables=values["tables"] | {"half_moved": digest_of(connection, "half_moved")},
    )
    found = records.load(connection, values["records"])
    for scope, count in Counter(record.scope for record in found.values()).items():
        with heads.changing(connection, current, scope) as head:
            head.records = count
    checks.write(connection, current)


def cover_archive(connection: sqlite3.Connection) -> None:
    """To version 5: bring the tables of the archive under the check values."""
    current = checks.read(connection, moved=True)
    current.version += 1  # what was seen of the state before is older
    current.tables |= {table: digest_of(connection, table) for table in ("archived", "archive_end")}
    checks.write(connection, current)


def checks_of_any(connection: sqlite3.Connection) -> tuple[Checks, int]:
    """The check values of a file of this version or an earlier one, and how many records it should have.

    Raises Damaged when they are not what was written.
    """
    try:
        current = checks.read(connection)
    except Damaged:
        lineage, serial, values = _read(connection)
        return Checks(lineage, values["version"], values["head_seq"], serial), values["records"]
    return current, heads.count(heads.read(connection, current))


def _read(connection: sqlite3.Connection) -> tuple[str, int, dict[str, Any]]:
    """Lineage, serial and all else. Raises Damaged when it is not what was written."""
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    try:
        lineage, serial, values = meta["lineage"], meta["serial"], json.loads(meta["checks"])
        sound = sha256({"lineage": lineage, "serial": serial, **values}) == meta["digest"]
    except (KeyError, TypeError, ValueError):
        sound = False
    if not sound:
        raise Damaged("its lineage, serial or check values are not what was written")
    return lineage, serial, values


def _write(connection: sqlite3.Connection, lineage: str, serial: int, values: dict[str, Any]) -> None:
    rows = {
        "lineage": lineage,
        "serial": serial,
        "checks": json.dumps(values),
        "digest": sha256({"lineage": lineage, "serial": serial, **values}),
    }
    connection.executemany("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", rows.items())
