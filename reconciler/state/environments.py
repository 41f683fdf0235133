"""Whose state it is: the environment that made it, in a row of `meta` that older programs pass over.

A state without that row belongs to no environment. The row carries a digest of its own.
"""

import hashlib
import json
import sqlite3
from pathlib import Path

from reconciler.core.advice import command
from reconciler.core.errors import StoreError
from reconciler.state.sqlite.database import Damaged

_KEY = "environment"


def read(connection: sqlite3.Connection, lineage: str) -> str:
    """The environment; "" for none. Raises Damaged when the row is not what was written."""
    found = connection.execute("SELECT value FROM meta WHERE key = ?", (_KEY,)).fetchone()
    if found is None:
        return ""
    try:
        row = json.loads(found[0])
        name = str(row["name"])
        sound = row["check"] == _check(lineage, name)
    except (KeyError, TypeError, ValueError):
        sound = False
    if not sound:
        raise Damaged("the name of its environment is not what was written")
    return name


def write(connection: sqlite3.Connection, lineage: str, name: str) -> None:
    """In the caller's transaction."""
    row = json.dumps({"name": name, "check": _check(lineage, name)})
    connection.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (_KEY, row))


def require(connection: sqlite3.Connection, path: Path, lineage: str, wanted: str, heir: str = "") -> str:
    """The environment that the state belongs to. Raises StoreError when that is not `wanted` ("": none).

    `heir`: the environment that takes the state of none over; one that is already its own is right, too.
    """
    owner = read(connection, lineage)
    if owner == wanted or (heir and owner == heir):
        return owner
    wanted = heir or wanted
    if not owner:
        take_over = command("state", "init", "--take-over")
        raise StoreError(
            f"the state {path} is not assigned to an environment; `{wanted}` was requested",
            help="leave out --env, or name another state; if it is to become the state of "
            f"`{wanted}` for good, run `{take_over}`",
            advice=(take_over,),
        )
    asked = f"and not to `{wanted}`" if wanted else "and --env was not given"
    raise StoreError(
        f"the state {path} belongs to environment `{owner}`, {asked}",
        help=f"pass --env {owner}, or name another state",
    )


def _check(lineage: str, name: str) -> str:
    return hashlib.sha256(f"{lineage}:{name}".encode()).hexdigest()
