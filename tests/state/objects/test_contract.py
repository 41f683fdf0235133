"""The contract of state backends, shown on object stores: in memory, S3 by moto, and a double of Google's."""

from collections.abc import AsyncIterator

import pytest
from obstore.store import MemoryStore

from reconciler.state.log.store import LogStore
from reconciler.state.places.objects.bucket import ObstoreBucket, open_objects
from tests.state.contract import Backend, StoreContract
from tests.state.objects import gcs
from tests.state.objects.conftest import S3
from tests.state.test_contract import Opened, until_closed
from tests.state.worlds import SimulatedClock


class TestInMemory(StoreContract):
    @pytest.fixture
    async def backend(self, clock: SimulatedClock) -> AsyncIterator[Backend]:
        memory = MemoryStore()

        def make() -> LogStore:
            return LogStore(ObstoreBucket("memory://", memory, memory), clock)

        async for backend in until_closed(Opened(clock, make, lease_s=60)):
            yield backend


@pytest.mark.slow
class TestS3(StoreContract):
    @pytest.fixture
    async def backend(self, s3: S3, clock: SimulatedClock) -> AsyncIterator[Backend]:
        async for backend in until_closed(Opened(clock, lambda: LogStore(s3.open(), clock), lease_s=60)):
            yield backend


@pytest.mark.slow
class TestGcs(StoreContract):
    @pytest.fixture
    async def backend(self, clock: SimulatedClock) -> AsyncIterator[Backend]:
        with gcs.serving() as url:

            def make() -> LogStore:
                return open_objects("gs://states/team", clock, variables=gcs.variables(url))

            async for backend in until_closed(Opened(clock, make, lease_s=60)):
                yield backend
