from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from reconciler.core.clock import Clock
from reconciler.state.places.sqlite.store import SqliteStore
from tests.state.worlds import SimulatedClock

OpenStore = Callable[[], SqliteStore]


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".reconcile" / "state.db"


@pytest.fixture
async def another(path: Path, clock: Clock) -> AsyncIterator[OpenStore]:
    """Opens one more store of the same state; all are closed at the end."""
    stores: list[SqliteStore] = []

    def open_one() -> SqliteStore:
        stores.append(SqliteStore(path, clock))
        return stores[-1]

    yield open_one
    for store in stores:
        await store.close()


@pytest.fixture
async def store(opened: SqliteStore) -> SqliteStore:
    """A store of a state that was made on purpose."""
    await opened.create()
    return opened


@pytest.fixture
async def opened(another: OpenStore) -> SqliteStore:
    """A store of whatever the test puts in its place."""
    return another()
