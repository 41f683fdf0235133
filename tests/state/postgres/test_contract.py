"""The contract of state backends, on a real PostgreSQL."""

from collections.abc import Iterator

import pytest

from tests.providers.postgres import Postgres
from tests.state.contract import Backend, StoreContract
from tests.state.moving import MovableContract
from tests.state.postgres.conftest import Handles
from tests.state.postgres.pooler import pooled

pytestmark = pytest.mark.slow


class TestPostgres(StoreContract, MovableContract):
    @pytest.fixture
    async def backend(self, handles: Handles) -> Backend:
        return handles

    @pytest.fixture
    async def elsewhere(self, other_handles: Handles) -> Backend:
        return other_handles


@pytest.fixture(scope="module")
def pooler(postgres: Postgres) -> Iterator[str]:
    with pooled(postgres, "transaction") as url:
        yield url.rpartition("/")[0]


class TestPooler(TestPostgres):
    """PgBouncer gives each transaction another connection."""

    @pytest.fixture
    async def backend(self, handles: Handles, pooler: str) -> Backend:
        handles.url = f"{pooler}/{handles.url.rpartition('/')[2]}"
        return handles
