"""A look at a state that may be in use, damaged or missing, for who only wants to know what it names."""

import sqlite3
from contextlib import closing
from pathlib import Path

from reconciler.core.model import Address
from reconciler.state.sqlite.database import connect_read_only


def recorded_addresses(url: str, root: Path) -> list[Address]:
    """The addresses of all records; none where they cannot be had. Takes no lock and writes nothing.

    What was recorded a moment ago, and is not in the database's own file yet, may be missing.
    """
    scheme, _, rest = url.partition(":")
    path = root / rest
    if scheme != "sqlite" or not rest or not path.is_file():
        return []
    try:
        with closing(connect_read_only(path)) as connection:
            rows = connection.execute("SELECT kind, name, app, ordinal FROM records").fetchall()
    except sqlite3.Error:
        return []
    return [Address(kind, name, app or None, ordinal) for kind, name, app, ordinal in rows]
