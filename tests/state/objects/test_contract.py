"""The contracts of state backends, on object stores: in memory, S3 by moto, and a double of Google's."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial

import pytest
from obstore.store import MemoryStore

from reconciler.state.log.store import LogStore
from reconciler.state.places.objects.bucket import ObstoreBucket, open_objects
from tests.state.contract import StoreContract
from tests.state.moving import MovableContract
from tests.state.objects import gcs
from tests.state.objects.conftest import S3
from tests.state.test_contract import New, OfPlaces, Opened
from tests.state.worlds import SimulatedClock


class TestInMemory(OfPlaces, StoreContract, MovableContract):
    @pytest.fixture
    def new(self, clock: SimulatedClock) -> New:
        def place() -> Opened:
            objects = MemoryStore()
            bucket = partial(ObstoreBucket, "memory://", objects, objects)
            return Opened(clock, lambda: LogStore(bucket(), clock), lease_s=60)

        return place


@pytest.mark.slow
class TestS3(OfPlaces, StoreContract, MovableContract):
    @pytest.fixture
    def new(self, make_s3: Callable[[], S3], clock: SimulatedClock) -> New:
        def place() -> Opened:
            s3 = make_s3()
            return Opened(clock, lambda: LogStore(s3.open(), clock), lease_s=60)

        return place


@pytest.mark.slow
class TestGcs(OfPlaces, StoreContract, MovableContract):
    @pytest.fixture
    def new(self, clock: SimulatedClock) -> Iterator[New]:
        with ExitStack() as servers:

            def place() -> Opened:
                variables = gcs.variables(servers.enter_context(gcs.serving()))
                make = partial(open_objects, "gs://states/team", clock, variables=variables)
                return Opened(clock, make, lease_s=60)

            yield place
