"""Whose state it is: the environment that made it, in a row of `meta` that older programs pass over.

A state without that row belongs to the base.
"""

import sqlite3
from pathlib import Path

from reconciler.core.advice import command
from reconciler.core.context import BASE
from reconciler.core.errors import StoreError
from reconciler.state.sqlite import signed

_KEY = "environment"


def read(connection: sqlite3.Connection, lineage: str) -> str:
    """The environment; "" for the base. Raises Damaged when the row is not what was written."""
    return signed.read(connection, lineage, _KEY)


def write(connection: sqlite3.Connection, lineage: str, name: str) -> None:
    """In the caller's transaction."""
    signed.write(connection, lineage, _KEY, name)


def require(connection: sqlite3.Connection, path: Path, lineage: str, wanted: str, heir: str = "") -> str:
    """The environment that the state belongs to. Raises StoreError when that is not `wanted` ("": the base).

    `heir`: the environment that takes the base's state over; one that is already its own is right, too.
    """
    owner = read(connection, lineage)
    if owner == wanted or (heir and owner == heir):
        return owner
    wanted = heir or wanted
    if not owner:
        take_over = command("state", "init", "--take-over")
        raise StoreError(
            f"the state {path} belongs to `{BASE}`, and not to `{wanted}`",
            help=f"pass --env {BASE}, or name another state; to make it the state of `{wanted}` "
            f"permanently, run `{take_over}`",
            advice=(take_over,),
        )
    raise StoreError(
        f"the state {path} belongs to environment `{owner}`, and not to `{wanted or BASE}`",
        help=f"pass --env {owner}, or name another state",
    )
