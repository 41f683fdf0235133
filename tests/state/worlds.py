"""Values that the tests of the state are about, and a clock that only moves when slept on."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio.lowlevel
from anyio import to_thread

from reconciler.core.model import Address, Lifecycle, StateRecord
from reconciler.state import backend_of
from reconciler.state.store import Event, JournalEntry, Lease, Store

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
DATA = Address("Volume", "data", "shop")


@dataclass
class SimulatedClock:
    elapsed_s: float = 0.0

    def now(self) -> datetime:
        return NOON + timedelta(seconds=self.elapsed_s)

    def monotonic(self) -> float:
        return self.elapsed_s

    async def sleep(self, seconds: float) -> None:
        self.elapsed_s += seconds
        await anyio.lowlevel.checkpoint()


def record(
    address: Address = DATA, *, scope: str = "shop", serial: int = 0, size_gb: int = 10
) -> StateRecord:
    return StateRecord(
        address, f"vol_{address.name}", scope, {"size_gb": size_gb}, Lifecycle(), NOON, serial=serial
    )


def entry(event: Event, step: str = "s1", *, run: str = "r1", attempt: int = 1, **data: Any) -> JournalEntry:
    return JournalEntry(run, event, NOON, DATA, step, attempt, data)


async def renew(store: Store, lease: Lease) -> None:
    """Put off the end of a lease, as the thread does that renews it."""
    await to_thread.run_sync(backend_of(store).beat, lease)
