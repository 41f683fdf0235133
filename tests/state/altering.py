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
    """Change what stands in the object whose key ends with `key`. `fits`: and make its tag fit."""
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT key, tag, body FROM objects WHERE key LIKE ?"
        ((found, tag, body),) = connection.execute(query, (f"%{key}",)).fetchall()
        assert before in body
        changed = body.replace(before, after, 1)
        tag = hashlib.sha256(changed).hexdigest() if fits else tag
        connection.execute("UPDATE objects SET tag = ?, body = ? WHERE key = ?", (tag, changed, found))
        connection.commit()
