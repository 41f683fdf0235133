"""The contract of state backends, on a real PostgreSQL."""

import pytest

from tests.state.contract import Backend, StoreContract
from tests.state.moving import MovableContract
from tests.state.postgres.conftest import Handles

pytestmark = pytest.mark.slow


class TestPostgres(StoreContract):
    @pytest.fixture
    async def backend(self, handles: Handles) -> Backend:
        return handles


class TestMoving(MovableContract):
    @pytest.fixture
    async def backend(self, handles: Handles) -> Backend:
        return handles

    @pytest.fixture
    async def elsewhere(self, other_handles: Handles) -> Backend:
        return other_handles
