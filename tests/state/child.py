"""A process of its own, for tests that kill it: `python -m tests.state.child (commits|leases) PATH SCOPE`.

Says on stdout what it has done, one line each, and does nothing more before a line on stdin says so.
"""

import os
import sys
from pathlib import Path

import anyio

from reconciler.core.clock import SystemClock
from reconciler.core.errors import Locked
from reconciler.core.model import Address
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.store import Event
from tests.state.worlds import entry, record


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


async def commits(store: SqliteStore, scope: str) -> None:
    """Commit one record after another, and say each one's number once it is stored."""
    lease = await store.lease([scope], "the child")
    number = 0
    while True:
        await store.commit(
            lease,
            [entry(Event.INTENT, f"s{number}"), entry(Event.DONE, f"s{number}")],
            [record(Address("Volume", f"data{number}", scope), scope=scope)],
        )
        say(str(number))
        number += 1


async def leases(store: SqliteStore, scope: str) -> None:
    """Try to take the lease, say how that went, and keep it."""
    say("ready")
    sys.stdin.readline()
    await store.create()
    try:
        await store.lease([scope], f"process {os.getpid()}")
    except Locked:
        say("locked")
    else:
        say("taken")
    sys.stdin.readline()


if __name__ == "__main__":
    verb, path, scope = sys.argv[1:]
    anyio.run({"commits": commits, "leases": leases}[verb], SqliteStore(Path(path), SystemClock()), scope)
