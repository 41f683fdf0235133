"""The contracts of state backends, shown on encrypted ones."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reconciler.state.places.memory import MemoryState
from tests.state.contract import Backend, StoreContract
from tests.state.encryption.doubles import in_memory, sealing
from tests.state.moving import MovableContract
from tests.state.postgres.conftest import Handles, database, handles, postgres  # noqa: F401 - fixtures
from tests.state.test_contract import Opened, until_closed
from tests.state.worlds import SimulatedClock


class TestEncryptedMemory(StoreContract):
    @pytest.fixture
    async def backend(self, clock: SimulatedClock) -> AsyncIterator[Backend]:
        known = MemoryState(clock)
        async for backend in until_closed(Opened(clock, lambda: in_memory(known))):
            yield backend


class TestMovesOfEncryptedStates(MovableContract):
    @pytest.fixture
    async def backend(self, clock: SimulatedClock) -> AsyncIterator[Backend]:
        known = MemoryState(clock)
        async for backend in until_closed(Opened(clock, lambda: in_memory(known))):
            yield backend

    @pytest.fixture
    async def elsewhere(self, clock: SimulatedClock, tmp_path: Path) -> AsyncIterator[Backend]:
        known = MemoryState(clock)
        async for backend in until_closed(Opened(clock, lambda: in_memory(known))):
            yield backend


@pytest.mark.slow
class TestEncryptedPostgres(StoreContract):
    @pytest.fixture
    async def backend(self, handles: Handles) -> Backend:  # noqa: F811 - a fixture
        return Opened(handles.clock, lambda: handles.open(seal=sealing()), lease_s=60)
