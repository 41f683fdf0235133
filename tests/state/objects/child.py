"""A runner that tests kill or stop: `python -m tests.state.objects.child ENDPOINT URL WORLD`.

It commits an intent, checks its lease, sends (a line in the file WORLD, which stands for the platform), and
commits the outcome, again and again, and says each step on stdout. A thread renews its lease. It ends when it
finds that the lease is lost.
"""

import os
import sys
import threading
from pathlib import Path

import anyio

from reconciler.core.clock import SystemClock
from reconciler.core.errors import StoreError
from reconciler.core.model import Address
from reconciler.state.log.lease_beats import Watched
from reconciler.state.log.store import LogStore
from reconciler.state.store import Event, Lease
from tests.state.objects.conftest import S3
from tests.state.worlds import entry, record

LEASE_S = 1.5
CALL_S = 0.3


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def send(world: Path, line: str) -> None:
    with world.open("a") as file:
        file.write(f"{line}\n")


def renew(store: LogStore, lease: Lease, ended: threading.Event) -> None:
    while not ended.wait(LEASE_S / 3):
        try:
            store.beat(lease)
        except StoreError:
            return


async def work(store: LogStore, world: Path) -> None:
    lease = await store.lease(["shop"], "the child")
    ended = threading.Event()
    threading.Thread(target=renew, args=(store, lease, ended), daemon=True).start()
    number, epoch = 0, lease.epochs["shop"]
    try:
        while True:
            step, address = f"s{number}", Address("Volume", f"data{number}", "shop")
            await store.commit(lease, [entry(Event.INTENT, step, run=f"{epoch}", scope="shop")])
            await store.check(lease, CALL_S)
            say(f"checked {number}")
            send(world, f"{epoch} {number}")
            await store.commit(lease, [entry(Event.DONE, step, run=f"{epoch}")], [record(address)])
            number += 1
    except StoreError as error:
        say(f"ended: {error.message}")
    finally:
        ended.set()


if __name__ == "__main__":
    endpoint, url, world = sys.argv[1:]
    store = LogStore(S3(endpoint, url).open(), SystemClock(), exclusion=Watched(SystemClock(), LEASE_S))
    anyio.run(work, store, Path(world))
