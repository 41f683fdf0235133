"""Leases that expire, beat, are taken over and taken away."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

import anyio
import pytest
from anyio import from_thread

from reconciler.core.errors import Locked, StoreError
from reconciler.state.log.bucket import Bucket, NoAnswer
from reconciler.state.log.lease_beats import Watched
from reconciler.state.log.leases import Held
from reconciler.state.log.store import LogStore
from reconciler.state.store import Event, Lease
from tests.state.objects.doubles import FAULTS, Counting, Fault, Faulty, Wrapped, memory_bucket
from tests.state.worlds import SimulatedClock, entry, record, renew

LEASE_S = 60.0

Open = Callable[..., LogStore]


class Elsewhere(SimulatedClock):
    """The clock of another machine, which goes as fast, and shows another time."""

    def __init__(self, true: SimulatedClock, skew_s: float) -> None:
        super().__init__()
        self._true = true
        self._skew_s = skew_s

    def now(self) -> datetime:
        return self._true.now() + timedelta(seconds=self._skew_s)

    def monotonic(self) -> float:
        return self._true.monotonic() + 1_000_000

    async def sleep(self, seconds: float) -> None:
        await self._true.sleep(seconds)


@dataclass
class Slow(Wrapped):
    """Each write takes its time."""

    clock: SimulatedClock = field(default_factory=SimulatedClock)
    takes_s: float = 0.0

    def replace(self, key: str, body: bytes, tag: str) -> str:
        self.clock.elapsed_s += self.takes_s
        return super().replace(key, body, tag)


@pytest.fixture
def bucket() -> Bucket:
    return memory_bucket()


@pytest.fixture
def opened(bucket: Bucket, clock: SimulatedClock) -> Open:
    def open(bucket: Bucket = bucket, clock: SimulatedClock = clock) -> LogStore:
        return LogStore(bucket, clock, exclusion=Watched(clock, LEASE_S))

    return open


@pytest.fixture
async def store(opened: Open) -> LogStore:
    store = opened()
    await store.create()
    return store


@pytest.mark.parametrize("skew_s", [0, 30, -300, 300, -86_400, 86_400])
async def test_a_dead_holders_scope_is_taken_by_the_next_runner_whatever_their_clocks_show(
    store: LogStore, opened: Open, clock: SimulatedClock, skew_s: float
) -> None:
    await store.lease(["shop"], "anna")
    clock.elapsed_s += LEASE_S + 1
    heir = opened(clock=Elsewhere(clock, skew_s))
    for _ in range(10):  # a runner that gives up is followed by another one
        try:
            lease = await heir.lease(["shop"], "ben")
            break
        except Locked:
            heir = opened(clock=Elsewhere(clock, skew_s))
            clock.elapsed_s += 60
    assert lease.epochs == {"shop": 2}


@pytest.mark.parametrize("skew_s", [0, 30, -300, 300, -86_400, 86_400])
async def test_a_living_holder_keeps_its_scope_whatever_their_clocks_show(
    store: LogStore, opened: Open, clock: SimulatedClock, skew_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await store.lease(["shop"], "anna")
    began_s, sleep = clock.elapsed_s, clock.sleep

    async def sleep_and_beat(seconds: float) -> None:
        await sleep(seconds)
        if int(clock.elapsed_s) % 20 == 0:
            store.beat(lease)

    monkeypatch.setattr(clock, "sleep", sleep_and_beat)
    with pytest.raises(Locked, match="locked by anna"):
        await opened(clock=Elsewhere(clock, skew_s)).lease(["shop"], "ben", timeout_s=200)
    assert clock.elapsed_s - began_s == pytest.approx(200, abs=25)
    await store.check(lease, for_s=30)


async def test_all_scopes_of_a_dead_holder_are_free_at_once(
    store: LogStore, opened: Open, clock: SimulatedClock
) -> None:
    await store.lease(["blog", "shop", "wiki"], "anna")
    clock.elapsed_s += 2 * LEASE_S
    heir = opened()
    await heir.lease(["shop"], "ben")
    before_s = clock.elapsed_s
    await opened().lease(["blog", "wiki"], "carl")
    assert clock.elapsed_s == before_s


async def test_who_asks_for_holders_is_told_at_once_of_one_that_may_be_dead(
    store: LogStore, opened: Open, clock: SimulatedClock
) -> None:
    await store.lease(["shop"], "anna")
    clock.elapsed_s += LEASE_S + 1
    watcher = opened()
    (held,) = (await watcher.holders(["shop"])).values()
    assert held.holder == "anna"
    assert held.rest_s == pytest.approx(LEASE_S, rel=0.06)
    assert clock.elapsed_s == LEASE_S + 1
    clock.elapsed_s += 2 * LEASE_S
    assert await watcher.holders(["shop"]) == {}


async def test_checks_at_the_same_moment_share_one_read_for_all_scopes(
    opened: Open, clock: SimulatedClock
) -> None:
    counting = Counting(memory_bucket())
    store = opened(counting)
    await store.create()
    lease = await store.lease([f"app{number}" for number in range(50)], "anna")
    counting.calls.clear()
    async with anyio.create_task_group() as tasks:
        for _ in range(100):
            tasks.start_soon(store.check, lease, 10)
    assert set(counting.calls) == {"get leases"}
    assert counting.calls["get leases"] <= 2


async def test_a_check_right_after_the_commit_of_an_intent_needs_no_read(
    opened: Open, clock: SimulatedClock
) -> None:
    counting = Counting(memory_bucket())
    store = opened(counting)
    await store.create()
    lease = await store.lease(["blog", "shop"], "anna")

    async def reads_of_a_check(scope: str = "shop") -> int:
        counting.calls.clear()
        await store.check(lease.of(scope), 10)
        return counting.calls["get leases"]

    await store.commit(lease.of("shop"), [entry(Event.INTENT)])
    assert await reads_of_a_check("blog") == 1  # it says nothing about another scope
    assert [await reads_of_a_check() for _ in range(2)] == [0, 1]
    for step in ("a", "b"):
        await store.commit(lease.of("shop"), [entry(Event.INTENT, step=step)])
    assert [await reads_of_a_check() for _ in range(3)] == [0, 0, 1]
    await store.commit(lease.of("shop"), [entry(Event.DONE)])
    assert await reads_of_a_check() == 1
    await store.commit(lease.of("shop"), [entry(Event.INTENT)])
    clock.elapsed_s += 1
    assert await reads_of_a_check() == 1


async def test_a_check_looks_at_the_scopes_that_it_is_about_only(
    store: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await store.lease([f"app{number}" for number in range(50)], "anna")
    looked: list[str] = []
    holds = Held.holds

    def counting(held: Held, scope: str) -> bool:
        looked.append(scope)
        return holds(held, scope)

    monkeypatch.setattr(Held, "holds", counting)
    await store.commit(lease.of("app7"), [entry(Event.INTENT)])
    for _ in range(2):  # the second one reads the lease
        await store.check(lease.of("app7"), 10)
    assert set(looked) == {"app7"}


async def test_a_check_renews_where_the_rest_is_too_short(store: LogStore, clock: SimulatedClock) -> None:
    lease = await store.lease(["shop"], "anna")
    clock.elapsed_s += 50
    await store.check(lease, for_s=30)
    clock.elapsed_s += 50
    await store.check(lease, for_s=5)


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_beat_without_an_answer_is_settled(
    opened: Open, bucket: Bucket, clock: SimulatedClock, fault: Fault
) -> None:
    faults: list[Fault] = []
    faulty = Faulty(bucket, lambda key: faults.pop() if faults and "/leases/" in key else "")
    store = opened(faulty)
    await store.create()
    lease = await store.lease(["shop"], "anna")
    for _ in range(4):
        clock.elapsed_s += 50
        faults.append(fault)
        store.beat(lease)
        await store.check(lease, for_s=50)


@pytest.mark.parametrize(("before_s", "takes_s"), [(0, 61), (30, 31)], ids=["request", "answer"])
async def test_a_renewal_that_comes_too_late_never_makes_the_lease_ours_again(
    opened: Open, clock: SimulatedClock, before_s: float, takes_s: float
) -> None:
    slow = Slow(memory_bucket(), clock=clock)
    store = opened(slow)
    await store.create()
    lease = await store.lease(["shop"], "anna")
    clock.elapsed_s += before_s
    slow.takes_s = takes_s
    with pytest.raises(StoreError, match="no longer ours"):
        store.beat(lease)
    slow.takes_s = 0
    for attempt in (
        lambda: store.check(lease),
        lambda: renew(store, lease),
        lambda: store.commit(lease, [entry(Event.INTENT)]),
    ):
        with pytest.raises(StoreError, match="no longer ours"):
            await attempt()


async def test_a_lease_that_another_was_faster_to_take_leaves_nothing(
    store: LogStore, opened: Open, bucket: Bucket
) -> None:
    class Overtaken(Faulty):
        """Another takes the second scope while the first one is being taken."""

        def replace(self, key: str, body: bytes, tag: str) -> str:
            if key.endswith("/heads/blog") and armed.pop():
                with from_thread.start_blocking_portal() as portal:
                    portal.call(opened().lease, ["shop"], "ben")
            return self.inner.replace(key, body, tag)

    armed = [False] * 4
    await store.release(await store.lease(["blog", "shop"], "carl"))
    armed.append(True)
    with pytest.raises(Locked, match="locked by ben"):
        await opened(Overtaken(bucket)).lease(["blog", "shop"], "anna")
    assert len([key for key in bucket.list("") if "/leases/" in key]) == 1


@pytest.mark.parametrize("take", ["lease", "unlock"])
async def test_a_scope_that_got_a_living_holder_while_its_dead_ones_end_was_written_is_not_taken(
    store: LogStore, opened: Open, bucket: Bucket, clock: SimulatedClock, take: str
) -> None:
    class Slow(Faulty):
        """While a lease is ended, another takes its scope, and a task of this process reads who has it."""

        def replace(self, key: str, body: bytes, tag: str) -> str:
            tag = self.inner.replace(key, body, tag)
            if "/leases/" in key and armed:
                armed.clear()
                with from_thread.start_blocking_portal() as portal:
                    portal.call(rival.lease, ["shop"], "ben")
                    assert portal.call(taker.holders, ["shop"])["shop"].holder == "ben"
            return tag

    armed = [True]
    rival, taker = opened(), opened(Slow(bucket))
    await store.lease(["shop"], "carl")
    await taker.holders(["shop"])
    clock.elapsed_s += 2 * LEASE_S
    with pytest.raises(Locked, match="locked by ben"):
        await (taker.lease(["shop"], "anna") if take == "lease" else taker.unlock("shop", force=False))


async def test_a_commit_that_landed_before_its_scope_was_taken_away_is_not_told_as_lost(
    store: LogStore, opened: Open, bucket: Bucket
) -> None:
    class Overtaken(Faulty):
        """The answer to a commit is lost, and the scope taken away before anybody looks."""

        def replace(self, key: str, body: bytes, tag: str) -> str:
            if "/heads/" not in key or armed.pop() != "now":
                return self.inner.replace(key, body, tag)
            self.inner.replace(key, body, tag)
            with from_thread.start_blocking_portal() as portal:
                portal.call(partial(opened().unlock, "shop", force=True, by="ben"))
            raise NoAnswer("the connection to the store broke")

    armed = ["", "now", "", ""]
    holder = opened(Overtaken(bucket))
    lease = await holder.lease(["shop"], "anna")
    armed[:] = ["", "now"]
    (stored,) = await holder.commit(lease, [entry(Event.DONE)], [record()])
    assert (await opened().load()).records == {stored.address: stored}
    armed[:] = [""] * 4
    with pytest.raises(StoreError, match="no longer ours"):
        await holder.commit(lease, [entry(Event.DONE)])


async def test_nothing_is_left_of_leases_that_were_given_back_or_not_got(
    store: LogStore, opened: Open, bucket: Bucket
) -> None:
    for _ in range(3):
        await store.release(await store.lease(["blog", "shop"], "anna"))
    await store.lease(["shop"], "anna")
    with pytest.raises(Locked):
        await opened().lease(["blog", "shop"], "ben")
    assert len([key for key in bucket.list("") if "/leases/" in key]) == 1


@pytest.mark.parametrize("paused_s", [0.07, 0.2, 0.4])
async def test_a_call_whose_scope_was_taken_by_force_after_its_intent_is_not_sent(
    opened: Open, clock: SimulatedClock, paused_s: float
) -> None:
    """Its process stood still in between, for less than a person would notice."""
    slow = Slow(memory_bucket(), clock=clock, takes_s=0.03)
    store = opened(slow)
    await store.create()
    lease = await store.lease(["shop"], "anna")
    await store.commit(lease, [entry(Event.INTENT, scope="shop")])
    clock.elapsed_s += paused_s
    rival = opened(slow.inner)
    await rival.unlock("shop", force=True, by="ben")
    with pytest.raises(StoreError, match="no longer ours"):
        await store.check(lease)


async def test_a_state_that_another_makes_at_the_same_moment_is_no_trace_of_one(bucket: Bucket) -> None:
    other = LogStore(bucket, SimulatedClock())

    class Overtaken(Wrapped):
        def list(self, prefix: str) -> Mapping[str, str]:
            from_thread.run(other.create)
            return super().list(prefix)

    assert not await LogStore(Overtaken(bucket), SimulatedClock()).create()
    assert (await other.load()).lineage


async def test_checks_of_one_moment_share_what_is_renewed(opened: Open, clock: SimulatedClock) -> None:
    store = opened()
    await store.create()
    lease = await store.lease(["blog", "shop"], "anna")
    clock.elapsed_s += LEASE_S - 10
    beats: list[Lease] = []
    leases = store._opened.leases  # type: ignore[union-attr]
    beat = leases._beat

    def counting(held: Held) -> None:
        beats.append(lease)
        beat(held)

    leases._beat = counting  # type: ignore[method-assign]
    async with anyio.create_task_group() as tasks:
        for scope in ("blog", "shop") * 10:
            tasks.start_soon(store.check, lease.of(scope), 30)
    assert len(beats) == 1


async def test_each_check_of_one_moment_hears_that_the_lease_is_lost(opened: Open) -> None:
    store = opened()
    await store.create()
    lease = await store.lease(["blog", "shop"], "anna")
    other = await store.lease(["wiki"], "anna")
    await opened().unlock("shop", force=True)
    refused = []

    async def check(asked: Lease) -> None:
        try:
            await store.check(asked)
        except StoreError as failure:
            refused.append(failure.message)

    async with anyio.create_task_group() as tasks:
        for asked in (lease, other, lease, other, lease):
            tasks.start_soon(check, asked)
    assert refused == ["the lease of `shop` is no longer ours"] * 3


async def test_a_check_that_was_not_asked_for_is_no_yes(opened: Open) -> None:
    store = opened()
    await store.create()
    lease = await store.lease(["shop"], "anna")
    refused = []

    def fail(leases: object) -> None:
        raise AssertionError("a mistake of ours")

    async def check() -> None:
        try:
            await store.check(lease)
        except (StoreError, AssertionError) as failure:
            refused.append(str(failure))

    store._opened.leases.refresh = fail  # type: ignore[union-attr, method-assign]
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(check)
    assert len(refused) == 5
