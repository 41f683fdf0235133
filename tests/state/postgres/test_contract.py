"""The contract of state backends, on a real PostgreSQL."""

import pytest
from psycopg.pq import TransactionStatus

from reconciler.state.postgres.line import Line, Row, Statement
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


class TestAnotherConnectionForEachTransaction(StoreContract):
    """As a transaction pooler gives them."""

    @pytest.fixture
    async def backend(self, handles: Handles, monkeypatch: pytest.MonkeyPatch) -> Backend:
        ask = Line.ask

        async def elsewhere(line: Line, *statements: Statement) -> list[list[Row]]:
            assert line._connection is not None
            if line._connection.info.transaction_status is TransactionStatus.IDLE:
                await line._hang_up()
                await line._connect()
            return await ask(line, *statements)

        monkeypatch.setattr(Line, "ask", elsewhere)
        return handles
