"""The contract of states that can be carried elsewhere, on object stores."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from obstore.store import MemoryStore as Objects

from reconciler.state.contents import same, verify
from reconciler.state.objects.obstore_bucket import ObstoreBucket, open_objects
from reconciler.state.objects.store import ObjectStore
from reconciler.state.sqlite.store import SqliteStore
from reconciler.state.store import Event
from tests.state.contract import Backend
from tests.state.moving import MovableContract
from tests.state.objects import gcs
from tests.state.objects.conftest import S3
from tests.state.test_contract import Opened, until_closed
from tests.state.test_migrations import left_by
from tests.state.worlds import SimulatedClock, entry


def in_memory(clock: SimulatedClock) -> Opened:
    objects = Objects()
    return Opened(clock, lambda: ObjectStore(ObstoreBucket("memory://", objects, objects), clock), lease_s=60)


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
        async for backend in until_closed(Opened(clock, lambda: ObjectStore(s3.open(), clock), lease_s=60)):
            yield backend

    @pytest.fixture
    async def elsewhere(self, make_s3: Callable[[], S3], clock: SimulatedClock) -> AsyncIterator[Backend]:
        s3 = make_s3()
        async for backend in until_closed(Opened(clock, lambda: ObjectStore(s3.open(), clock), lease_s=60)):
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


@pytest.mark.anyio
async def test_a_file_of_version_3_keeps_its_oldest_rows(tmp_path: Path, clock: SimulatedClock) -> None:
    old = tmp_path / "state.db"
    left_by(3, old)
    source = SqliteStore(old, clock)
    contents = await source.export()
    assert contents.trunk.seq
    target = in_memory(clock)
    store = target.open()
    await store.import_(contents)  # type: ignore[attr-defined]
    assert await target.open().load() == await source.load()
    lease = await store.lease(["brand-new"], "me")
    await store.commit(lease, [entry(Event.INTENT)])
    moved = await target.open().export()  # type: ignore[attr-defined]
    verify(moved)
    assert moved.rows[: len(contents.rows)] == contents.rows
    assert not same(moved, contents)
    await source.close()
