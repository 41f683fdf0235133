"""A runner, for tests that kill or stop it: `python -m tests.state.postgres.child URL SCOPE LEASE_S`.

It takes the lease and says so. At each line on stdin it renews and checks the lease, commits one entry, and
says how that went.
"""

import os
import sys

import anyio

from reconciler.core.clock import SystemClock
from reconciler.core.errors import StoreError
from reconciler.state.places.postgres.store import PostgresStore
from reconciler.state.store import Event
from tests.state.worlds import entry


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


async def work(url: str, scope: str, lease_s: float) -> None:
    store = PostgresStore(url, SystemClock(), lease_s=lease_s)
    lease = await store.lease([scope], "the child")
    say("taken")
    for number, _ in enumerate(sys.stdin):
        told = []
        try:
            store.beat(lease)
            await store.check(lease, for_s=lease_s / 2)
            told.append("checked")
        except StoreError as failure:
            told.append(failure.message)
        try:
            await store.commit(lease, [entry(Event.INTENT, f"child {number}")])
            told.append("committed")
        except StoreError as failure:
            told.append(failure.message)
        say("; ".join(told))
    await store.close()


if __name__ == "__main__":
    _, url, scope, lease_s = sys.argv
    anyio.run(work, url, scope, float(lease_s))
