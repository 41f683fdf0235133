"""Changes of a state in a file, as a disk or a person may make them."""

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path


def execute(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute(statement).rowcount != 0
        connection.commit()


def alter(path: Path, key: str, before: bytes, after: bytes, *, fits: bool = False) -> None:
    """Change what stands in the object whose key ends with `key`. `fits`: and make its tag or digest fit."""
    with closing(sqlite3.connect(path)) as connection:
        found = [
            *connection.execute("SELECT 'objects', key, 0, CAST(body AS BLOB) FROM objects"),
            *connection.execute("SELECT 'lines', head, number, line FROM lines"),
        ]
        table, full, number, body = next(row for row in found if row[1].endswith(key) and before in row[3])
        changed = body.replace(before, after, 1)
        digest = hashlib.sha256(changed)
        if table == "objects":
            connection.execute("UPDATE objects SET body = ? WHERE key = ?", (changed, full))
            if fits:
                connection.execute("UPDATE objects SET tag = ? WHERE key = ?", (digest.hexdigest(), full))
        else:
            where = "WHERE head = ? AND number = ?"
            connection.execute(f"UPDATE lines SET line = ? {where}", (changed, full, number))
            if fits:
                connection.execute(f"UPDATE lines SET digest = ? {where}", (digest.digest(), full, number))
        connection.commit()
