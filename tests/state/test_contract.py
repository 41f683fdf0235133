"""The contract of state backends, shown on those that we have, and on the wrapper that runs use."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from reconciler.state.places.memory import MemoryState, MemoryStore
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.spooling import Spooling
from reconciler.state.store import Store
from tests.state.contract import Backend, StoreContract
from tests.state.etcd import Etcd, open_etcd
from tests.state.worlds import SimulatedClock


@dataclass
class Opened:
    """A `Backend` whose handles `make` opens."""

    clock: SimulatedClock
    make: Callable[[], Store]
    lease_s: float | None = None
    stores: list[Store] = field(default_factory=list)

    def open(self) -> Store:
        self.stores.append(self.make())
        return self.stores[-1]

    async def cut(self, store: Store) -> None:
        if self.lease_s is None:
            await store.close()  # what an operating system does for a dead process: its locks are free


async def until_closed(backend: Opened) -> AsyncIterator[Backend]:
    yield backend
    for store in backend.stores:
        await store.close()


class TestSqlite(StoreContract):
    @pytest.fixture
    async def backend(self, path: Path, clock: SimulatedClock) -> AsyncIterator[Backend]:
        async for backend in until_closed(Opened(clock, lambda: SqliteStore(path, clock))):
            yield backend


class TestMemory(StoreContract):
    @pytest.fixture
    async def backend(self, clock: SimulatedClock) -> AsyncIterator[Backend]:
        known = MemoryState(clock)
        async for backend in until_closed(Opened(clock, lambda: MemoryStore(known))):
            yield backend


class TestMemoryWithLeasesThatExpire(StoreContract):
    @pytest.fixture
    async def backend(self, clock: SimulatedClock) -> AsyncIterator[Backend]:
        known = MemoryState(clock, lease_s=60)
        async for backend in until_closed(Opened(clock, lambda: MemoryStore(known), lease_s=60)):
            yield backend


class TestSpooling(StoreContract):
    @pytest.fixture
    async def backend(self, tmp_path: Path, clock: SimulatedClock) -> AsyncIterator[Backend]:
        known, place = MemoryState(clock), tmp_path / "outcomes.spool"
        opened = Opened(clock, lambda: Spooling(MemoryStore(known), place, clock))
        async for backend in until_closed(opened):
            yield backend


@pytest.mark.parametrize("loses_every", [0, 3])
class TestAPlaceThatIsWrittenElsewhere(StoreContract):
    """Over nothing but the contract of places: with all answers, and with every third one lost."""

    @pytest.fixture
    async def backend(self, clock: SimulatedClock, loses_every: int) -> AsyncIterator[Backend]:
        server = Etcd(clock, loses_every=loses_every)
        async for backend in until_closed(Opened(clock, lambda: open_etcd(server), lease_s=server.ttl_s)):
            yield backend
