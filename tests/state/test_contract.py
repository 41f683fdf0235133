"""The contracts of state backends, shown on those that we have, and on the wrapper that runs use."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from reconciler.state.places.memory import MemoryState, MemoryStore
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.spooling import Spooling
from reconciler.state.store import Store
from tests.state.contract import Backend, StoreContract
from tests.state.etcd import Etcd, open_etcd
from tests.state.moving import MovableContract
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


New = Callable[[], Opened]


class OfPlaces:
    """Gives the contracts their states, each in a place of its own that the fixture `new` opens."""

    @pytest.fixture
    async def backend(self, new: New) -> AsyncIterator[Backend]:
        async for backend in until_closed(new()):
            yield backend

    @pytest.fixture
    async def elsewhere(self, new: New) -> AsyncIterator[Backend]:
        async for backend in until_closed(new()):
            yield backend


class TestSqlite(OfPlaces, StoreContract, MovableContract):
    @pytest.fixture
    def new(self, tmp_path: Path, clock: SimulatedClock) -> New:
        paths = (tmp_path / f"{number}" / "state.db" for number in count())

        def place() -> Opened:
            path = next(paths)
            return Opened(clock, lambda: SqliteStore(path, clock))

        return place


class TestMemory(OfPlaces, StoreContract, MovableContract):
    @pytest.fixture
    def new(self, clock: SimulatedClock) -> New:
        def place() -> Opened:
            known = MemoryState(clock)
            return Opened(clock, lambda: MemoryStore(known))

        return place


class TestMemoryWithLeasesThatExpire(OfPlaces, StoreContract):
    @pytest.fixture
    def new(self, clock: SimulatedClock) -> New:
        known = MemoryState(clock, lease_s=60)
        return lambda: Opened(clock, lambda: MemoryStore(known), lease_s=60)


class TestSpooling(OfPlaces, StoreContract):
    @pytest.fixture
    def new(self, tmp_path: Path, clock: SimulatedClock) -> New:
        known, file = MemoryState(clock), tmp_path / "outcomes.spool"
        return lambda: Opened(clock, lambda: Spooling(MemoryStore(known), file, clock))


@pytest.mark.parametrize("loses_every", [0, 3])
class TestAPlaceThatIsWrittenElsewhere(OfPlaces, StoreContract, MovableContract):
    """Over nothing but the contract of places: with all answers, and with every third one lost."""

    @pytest.fixture
    def new(self, clock: SimulatedClock, loses_every: int) -> New:
        def place() -> Opened:
            server = Etcd(clock, loses_every=loses_every)
            return Opened(clock, lambda: open_etcd(server), lease_s=server.ttl_s)

        return place
