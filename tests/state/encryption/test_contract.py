"""The contract of state backends, shown on encrypted ones."""

from collections.abc import AsyncIterator

import pytest

from reconciler.state.chain import row_hash, state_head
from reconciler.state.places.memory import MemoryState, MemoryStore
from reconciler.state.store import Event, Store
from tests.state.contract import Backend, StoreContract
from tests.state.encryption.doubles import Team
from tests.state.postgres.conftest import Handles, database, handles, postgres  # noqa: F401 - fixtures
from tests.state.test_contract import Opened, until_closed
from tests.state.worlds import SimulatedClock, entry


class EncryptedContract(StoreContract):
    async def test_the_head_of_a_scope_follows_from_all_its_entries(
        self, backend: Backend, store: Store
    ) -> None:
        """With other hashes: those of what the backend keeps, which tell nothing of what is in it."""
        lease = await store.lease(["shop"], "me")
        entries = [entry(Event.INTENT), entry(Event.DONE)]
        await store.commit(lease, entries)
        state = await backend.open().load()
        assert state.heads.keys() == {"shop"}
        assert state.heads == (await store.load()).heads
        columns = ("r1", "step.done", entries[1].at.isoformat(), "Volume/shop/data", "s1", 1)
        assert state.heads["shop"] != row_hash(state.lineage, 2, columns, b"{}", "shop")
        await store.commit(lease, [entry(Event.INTENT, "s2")])
        after = await store.load()
        assert state_head(after.lineage, after.heads) != state_head(state.lineage, state.heads)


class TestEncryptedMemory(EncryptedContract):
    @pytest.fixture
    async def backend(self, clock: SimulatedClock) -> AsyncIterator[Backend]:
        known = MemoryState(clock)
        async for backend in until_closed(Opened(clock, Team(lambda: MemoryStore(known)))):
            yield backend


@pytest.mark.slow
class TestEncryptedPostgres(EncryptedContract):
    @pytest.fixture
    async def backend(self, handles: Handles) -> Backend:  # noqa: F811 - a fixture
        return Opened(handles.clock, Team(handles.open), lease_s=60)
