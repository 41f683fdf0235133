"""The contracts of state backends, shown on encrypted ones."""

import pytest

from reconciler.state.places.memory import MemoryState
from tests.state.contract import Backend, StoreContract
from tests.state.encryption.doubles import in_memory, sealing
from tests.state.moving import MovableContract
from tests.state.postgres.conftest import Handles, database, handles, postgres  # noqa: F401 - fixtures
from tests.state.test_contract import New, OfPlaces, Opened
from tests.state.worlds import SimulatedClock


class TestEncryptedMemory(OfPlaces, StoreContract, MovableContract):
    @pytest.fixture
    def new(self, clock: SimulatedClock) -> New:
        def place() -> Opened:
            known = MemoryState(clock)
            return Opened(clock, lambda: in_memory(known))

        return place


@pytest.mark.slow
class TestEncryptedPostgres(StoreContract):
    @pytest.fixture
    async def backend(self, handles: Handles) -> Backend:  # noqa: F811 - a fixture
        return Opened(handles.clock, lambda: handles.open(seal=sealing()), lease_s=60)
