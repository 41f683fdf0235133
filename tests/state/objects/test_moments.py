"""What happens between two requests of one runner: others act, or much time passes."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event as Happened
from typing import Any

import pytest
from anyio import from_thread

from reconciler.core.errors import Locked, StateMoved, StoreError
from reconciler.core.model import Address
from reconciler.project.copies import Side, migrate
from reconciler.state.contents import StateDump
from reconciler.state.log import lease_beats, segments
from reconciler.state.log.bucket import Bucket, Found
from reconciler.state.log.store import LogStore
from reconciler.state.store import Event
from tests.state.objects.doubles import Faulty, Wrapped, memory_bucket
from tests.state.worlds import SimulatedClock, entry, record

LEASE_S = 60.0

Act = Callable[[], Awaitable[Any]]


@dataclass
class Between(Wrapped):
    """`act` once, before a write to a key that ends so, of a body with `holding` in it."""

    to: str = ""
    holding: bytes = b""
    act: Act | None = None

    def replace(self, key: str, body: bytes, tag: str) -> str:
        if self.act is not None and key.endswith(self.to) and self.holding in body:
            act, self.act = self.act, None
            with from_thread.start_blocking_portal() as portal:
                portal.call(act)
        return super().replace(key, body, tag)


@dataclass
class Slow(Wrapped):
    """Each request for a lease takes so long, by this clock."""

    clock: SimulatedClock = field(default_factory=SimulatedClock)
    seconds: float = 0.0

    def get(self, key: str) -> Found | None:
        self._wait(key)
        return super().get(key)

    def create(self, key: str, body: bytes) -> str:
        self._wait(key)
        return super().create(key, body)

    def replace(self, key: str, body: bytes, tag: str) -> str:
        self._wait(key)
        return super().replace(key, body, tag)

    def _wait(self, key: str) -> None:
        if "/leases/" in key:
            self.clock.elapsed_s += self.seconds


@pytest.fixture
def bucket() -> Bucket:
    return memory_bucket()


@pytest.fixture
def slow(bucket: Bucket, clock: SimulatedClock) -> Slow:
    return Slow(bucket, clock)


def opened(bucket: Bucket, clock: SimulatedClock) -> LogStore:
    return LogStore(bucket, clock, exclusion=lease_beats.Watched(clock, LEASE_S))


async def test_a_lease_that_ends_while_the_store_is_asked_does_not_check(
    slow: Slow, clock: SimulatedClock
) -> None:
    store = opened(slow, clock)
    await store.create()
    lease = await store.lease(["shop"], "anna")
    slow.seconds = LEASE_S + 1
    with pytest.raises(StoreError, match="no longer ours"):
        await store.check(lease, for_s=5)


@pytest.mark.parametrize("renews", [False, True])
async def test_a_lease_counts_from_when_it_was_asked_for(
    slow: Slow, clock: SimulatedClock, renews: bool
) -> None:
    store = opened(slow, clock)
    await store.create()
    slow.seconds = 0 if renews else 20
    lease = await store.lease(["shop"], "anna")
    slow.seconds = 20
    if renews:
        store.beat(lease)
    slow.seconds = 0
    clock.elapsed_s += LEASE_S - 10
    with pytest.raises(StoreError, match="no longer ours"):
        store.beat(lease)


async def test_a_holder_that_beats_at_the_last_moment_keeps_its_lease(
    bucket: Bucket, clock: SimulatedClock
) -> None:
    holder = opened(bucket, clock)
    await holder.create()
    lease = await holder.lease(["shop"], "anna")

    async def beat() -> None:
        holder.beat(lease)

    fast = SimulatedClock()  # of a watcher to whom it seems that nothing has moved for long enough
    between = Between(bucket, "", b'"ended": true', beat)
    watcher = opened(between, fast)
    for _ in range(2):
        with pytest.raises(Locked):
            await watcher.lease(["shop"], "ben")
        fast.elapsed_s += 2 * LEASE_S
    assert between.act is None, "nothing was written at that moment"
    await holder.check(lease, for_s=5)


async def test_what_is_stored_while_the_heads_are_read_is_seen_with_all_before_it(
    bucket: Bucket, clock: SimulatedClock
) -> None:
    store = opened(bucket, clock)
    await store.create()
    lease = await store.lease(["blog", "shop"], "anna")
    posts, data = (record(Address("Volume", "data", app), scope=app) for app in ("blog", "shop"))
    commits = [partial(store.commit, lease.of(each.scope), [], [each]) for each in (data, posts)]
    read = Happened()

    class Storing(Wrapped):
        """Something is stored in the scope that was read first, and then in the one that is read last."""

        def get(self, key: str) -> Found | None:
            if key.endswith("/heads/shop") and commits:
                assert read.wait(timeout=60)
                with from_thread.start_blocking_portal() as portal:
                    while commits:
                        portal.call(commits.pop())
            found = super().get(key)
            if key.endswith("/heads/blog"):
                read.set()
            return found

    state = await opened(Storing(bucket), clock).load()
    assert set(state.records) == {posts.address, data.address}


async def test_a_lease_that_is_taken_while_a_state_moves_keeps_it_here(
    bucket: Bucket, clock: SimulatedClock
) -> None:
    store = opened(bucket, clock)
    await store.create()
    await store.release(await store.lease(["shop"], "anna"))
    contents = await store.export()
    rival = opened(bucket, clock)
    take = partial(rival.lease, ["shop"], "ben")
    moving = opened(Between(bucket, "state.json", b"s3://there", take), clock)
    with pytest.raises(StoreError, match="changed"):
        await moving.retire("s3://there", contents)
    assert (await opened(bucket, clock).load()).lineage == contents.lineage


async def test_a_head_that_does_not_land_leaves_its_segments(
    bucket: Bucket, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "TAIL_BYTES", 300)
    faulty = Faulty(bucket, lambda key: "request lost" if "/heads/" in key and cut else "")
    cut = False
    store = opened(faulty, clock)
    await store.create()
    lease = await store.lease(["shop"], "anna")
    for number in range(20):
        cut = False
        await store.commit(lease, [entry(Event.DONE, f"s{number}")])
        cut = True
        with pytest.raises(StoreError, match="did not take"):
            await store.commit(lease, [entry(Event.DONE, f"lost{number}")])
        assert len(await opened(bucket, clock).journal()) == number + 1


class Watched(LogStore):
    """Whatever happens when it is told where it went."""

    when_retired: Act

    async def retire(self, to: str, contents: StateDump) -> None:
        await self.when_retired()
        await super().retire(to, contents)


async def test_the_new_side_takes_nothing_before_the_old_one_has_said_that_it_moved(
    bucket: Bucket, clock: SimulatedClock
) -> None:
    there, source = memory_bucket(), Watched(bucket, clock, exclusion=lease_beats.Watched(clock, LEASE_S))
    await source.create()
    target = opened(there, clock)

    async def take() -> None:
        with pytest.raises(StateMoved):
            await opened(there, clock).lease(["shop"], "ben")

    source.when_retired = take
    await migrate(Side(source, "s3://here"), Side(target, "s3://there"), "anna", timeout_s=0)
    await opened(there, clock).lease(["shop"], "ben")


async def test_a_copy_that_is_not_what_was_written_is_not_moved_to(
    bucket: Bucket, clock: SimulatedClock
) -> None:
    class Wrong(LogStore):
        async def import_(self, contents: StateDump) -> None:
            await super().import_(replace(contents, key=bytes(32)))

    source, target = (
        opened(bucket, clock),
        Wrong(memory_bucket(), clock, exclusion=lease_beats.Watched(clock, LEASE_S)),
    )
    await source.create()
    with pytest.raises(StoreError, match="is not what was written"):
        await migrate(Side(source, "s3://here"), Side(target, "s3://there"), "me", timeout_s=0)
    await opened(bucket, clock).lease(["shop"], "ben")
