"""The contract of states that can be carried elsewhere, on object stores."""

from collections.abc import AsyncIterator, Callable

import pytest
from obstore.store import MemoryStore as Objects

from reconciler.state.log.store import LogStore
from reconciler.state.places.objects.bucket import ObstoreBucket, open_objects
from tests.state.contract import Backend
from tests.state.moving import MovableContract
from tests.state.objects import gcs
from tests.state.objects.conftest import S3
from tests.state.test_contract import Opened, until_closed
from tests.state.worlds import SimulatedClock


def in_memory(clock: SimulatedClock) -> Opened:
    objects = Objects()
    return Opened(clock, lambda: LogStore(ObstoreBucket("memory://", objects, objects), clock), lease_s=60)


def in_google(url: str, clock: SimulatedClock) -> Opened:
    variables = gcs.variables(url)
    return Opened(clock, lambda: open_objects("gs://states/team", clock, variables=variables), lease_s=60)


class TestInMemory(MovableContract):
    @pytest.fixture
    async def backend(self, clock: SimulatedClock) -> AsyncIterator[Backend]:
        async for backend in until_closed(in_memory(clock)):
            yield backend

    @pytest.fixture
    async def elsewhere(self, clock: SimulatedClock) -> AsyncIterator[Backend]:
        async for backend in until_closed(in_memory(clock)):
            yield backend


@pytest.mark.slow
class TestS3(MovableContract):
    @pytest.fixture
    async def backend(self, make_s3: Callable[[], S3], clock: SimulatedClock) -> AsyncIterator[Backend]:
        s3 = make_s3()
        async for backend in until_closed(Opened(clock, lambda: LogStore(s3.open(), clock), lease_s=60)):
            yield backend

    @pytest.fixture
    async def elsewhere(self, make_s3: Callable[[], S3], clock: SimulatedClock) -> AsyncIterator[Backend]:
        s3 = make_s3()
        async for backend in until_closed(Opened(clock, lambda: LogStore(s3.open(), clock), lease_s=60)):
            yield backend


@pytest.mark.slow
class TestGcs(MovableContract):
    @pytest.fixture
    async def backend(self, clock: SimulatedClock) -> AsyncIterator[Backend]:
        with gcs.serving() as url:
            async for backend in until_closed(in_google(url, clock)):
                yield backend

    @pytest.fixture
    async def elsewhere(self, clock: SimulatedClock) -> AsyncIterator[Backend]:
        with gcs.serving() as url:
            async for backend in until_closed(in_google(url, clock)):
                yield backend
