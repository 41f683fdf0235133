"""What a commit costs, and what becomes of a journal that grows."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio
import pytest

from reconciler.core.model import Address
from reconciler.state.contents import verify
from reconciler.state.log import segments
from reconciler.state.log.bucket import Bucket, Found
from reconciler.state.log.store import LogStore
from reconciler.state.store import Event, Lease
from tests.state.objects.doubles import Counting, Wrapped, memory_bucket, objects_of
from tests.state.worlds import SimulatedClock, entry, record


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files so small that a few commits fill them."""
    monkeypatch.setattr(segments, "TAIL_BYTES", 2_000)
    monkeypatch.setattr(segments, "BASE_BYTES", 8_000)


@pytest.fixture
def bucket() -> Counting:
    return Counting(memory_bucket())


@pytest.fixture
async def store(bucket: Counting, clock: SimulatedClock) -> LogStore:
    store = LogStore(bucket, clock)
    await store.create()
    return store


async def create_many(store: LogStore, lease: Lease, numbers: Sequence[int]) -> None:
    for number in numbers:
        await store.commit(lease, [entry(Event.INTENT, f"s{number}")])
        made = record(Address("Volume", f"data{number}", "shop"))
        await store.commit(lease, [entry(Event.DONE, f"s{number}")], [made])


async def test_commits_of_one_moment_are_one_write(store: LogStore, bucket: Counting) -> None:
    lease = await store.lease(["shop"], "me")
    bucket.calls.clear()
    async with anyio.create_task_group() as tasks:
        for number in range(200):
            tasks.start_soon(store.commit, lease, [entry(Event.INTENT, f"s{number}")])
    assert len((await store.load()).open_intents) == 200
    assert bucket.calls["replace heads"] <= 3


async def test_a_commit_is_one_request(store: LogStore, bucket: Counting) -> None:
    lease = await store.lease(["shop"], "me")
    bucket.calls.clear()
    await create_many(store, lease, range(5))
    assert bucket.calls == {"replace heads": 10}


@dataclass
class Together(Wrapped):
    """Gives a base once somebody waits for a segment, too."""

    segment: threading.Event = field(default_factory=threading.Event)
    met: int = 0

    def get(self, key: str) -> Found | None:
        if "/journal/" in key:
            self.segment.set()
        if "/base/" in key:
            self.met += self.segment.wait(timeout=30)
        return super().get(key)


@pytest.mark.usefixtures("small")
async def test_a_reader_who_knows_nothing_asks_for_the_base_and_what_came_after_it_at_once(
    store: LogStore, bucket: Counting, clock: SimulatedClock
) -> None:
    lease = await store.lease(["shop"], "me")
    await create_many(store, lease, range(60))
    together = Together(bucket)
    assert len((await LogStore(together, clock).load()).records) == len((await store.load()).records)
    assert together.met == 1


@pytest.mark.slow
@pytest.mark.usefixtures("small")
async def test_a_commit_costs_the_same_however_much_is_recorded(store: LogStore, bucket: Counting) -> None:
    lease = await store.lease(["shop"], "me")
    costs = []
    for block in range(4):
        bucket.calls.clear()
        bucket.written = 0
        await create_many(store, lease, range(block * 400, block * 400 + 400))
        costs.append((bucket.calls.total(), bucket.written))
    for requests, written in costs[1:]:
        assert requests <= 1.25 * costs[0][0]
        assert written <= 2 * costs[0][1]


@pytest.mark.usefixtures("small")
async def test_files_stay_few_and_the_journal_stays_whole(
    store: LogStore, bucket: Counting, clock: SimulatedClock
) -> None:
    lease = await store.lease(["shop"], "me")
    await create_many(store, lease, range(500))
    keys = list(bucket.list(""))
    assert len([key for key in keys if "/base/" in key]) == 1
    assert len([key for key in keys if "/journal/" in key]) <= 16
    reader = LogStore(bucket, clock)
    bucket.calls.clear()
    assert len((await reader.load()).records) == 500
    assert bucket.calls["get journal"] <= 16
    assert len(await reader.journal()) == 1000
    await reader.verify()
    verify(await reader.export())


@pytest.mark.usefixtures("small")
async def test_a_reader_that_knows_the_state_reads_what_is_new_only(
    store: LogStore, bucket: Counting, clock: SimulatedClock
) -> None:
    lease, reader = await store.lease(["shop"], "me"), LogStore(bucket, clock)
    await create_many(store, lease, range(100))
    await reader.load()
    bucket.calls.clear()
    await reader.load()
    assert bucket.calls == {"get root": 1, "list heads": 1}
    await create_many(store, lease, range(100, 102))
    bucket.calls.clear()
    assert len((await reader.load()).records) == 102
    assert bucket.calls["get base"] == 0
    assert bucket.calls["get journal"] <= 2


class Interrupted(Wrapped):
    """Between two reads of a reader, a writer goes on."""

    def __init__(self, inner: Bucket) -> None:
        super().__init__(inner)
        self.meanwhile: list[dict[str, bytes]] = []

    def get(self, key: str) -> Found | None:
        found = super().get(key)
        if ("/heads/" in key or "/base/" in key) and self.meanwhile:
            self.become(self.meanwhile.pop(0))
        return found

    def become(self, objects: dict[str, bytes]) -> None:
        self.inner = memory_bucket(objects)


@pytest.mark.usefixtures("small")
async def test_a_reader_gets_one_moment_while_files_are_merged_and_deleted(
    store: LogStore, bucket: Counting, clock: SimulatedClock
) -> None:
    lease = await store.lease(["shop"], "me")
    moments = []
    for block in range(40):
        await create_many(store, lease, range(block * 7, block * 7 + 7))
        moments.append(objects_of(bucket))
    for first in range(0, 30, 3):
        interrupted = Interrupted(memory_bucket(moments[first]))
        interrupted.meanwhile = moments[first + 1 : first + 5]
        state = await LogStore(interrupted, clock).load()
        assert len(state.records) in {7 * (block + 1) for block in range(first, first + 5)}
        assert state.open_intents == ()
