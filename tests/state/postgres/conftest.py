from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from reconciler.state.places.postgres.store import PostgresStore
from reconciler.state.store import Store
from tests.providers.postgres import Postgres, running_postgres
from tests.state.worlds import SimulatedClock


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


@pytest.fixture
def database(postgres: Postgres) -> Postgres:
    """A database of its own, without a state."""
    return postgres.new()


@dataclass
class Handles:
    """A `Backend` on one state of a database, whose server has the time of `clock`."""

    url: str
    clock: SimulatedClock
    lease_s: float = 60
    stores: list[PostgresStore] = field(default_factory=list)

    def open(self, **options: Any) -> PostgresStore:
        options = {"lease_s": self.lease_s, "now": lambda: f"timestamptz '{self.clock.now()}'", **options}
        store = PostgresStore(options.pop("url", self.url), self.clock, **options)
        store.connections.pause = self.pause
        self.stores.append(store)
        return store

    def pause(self, seconds: float) -> None:
        self.clock.elapsed_s += seconds

    async def cut(self, store: Store) -> None:
        """The lease is left to its end."""


@pytest.fixture
async def handles(database: Postgres, clock: SimulatedClock) -> AsyncIterator[Handles]:
    async for opened in _until_closed(Handles(database.url, clock)):
        yield opened


@pytest.fixture
async def other_handles(postgres: Postgres, clock: SimulatedClock) -> AsyncIterator[Handles]:
    """On a state in another database."""
    async for opened in _until_closed(Handles(postgres.new().url, clock)):
        yield opened


async def _until_closed(handles: Handles) -> AsyncIterator[Handles]:
    yield handles
    for store in handles.stores:
        await store.close()
