"""Values in rows of `meta` that older programs pass over: each carries a digest of its own."""

import hashlib
import json
import sqlite3

from reconciler.state.sqlite.database import Damaged


def read(connection: sqlite3.Connection, lineage: str, key: str) -> str:
    """The value; "" where there is none. Raises Damaged when the row is not what was written."""
    found = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    if found is None:
        return ""
    try:
        row = json.loads(found[0])
        name = str(row["name"])
        sound = row["check"] == _check(lineage, name)
    except (KeyError, TypeError, ValueError):
        sound = False
    if not sound:
        raise Damaged(f"`{key}` in its table meta is not what was written")
    return name


def write(connection: sqlite3.Connection, lineage: str, key: str, name: str) -> None:
    """In the caller's transaction."""
    row = json.dumps({"name": name, "check": _check(lineage, name)})
    connection.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, row))


def _check(lineage: str, name: str) -> str:
    return hashlib.sha256(f"{lineage}:{name}".encode()).hexdigest()
