"""Leases that end by themselves are kept while the event loop answers, and only then."""

import threading
from collections.abc import Iterator

import anyio
import pytest

from reconciler.core.errors import LeaseLost, StoreError
from reconciler.state import renewing
from reconciler.state.places.memory import MemoryState, MemoryStore
from reconciler.state.renewing import QUIET_S, Renewal, renewed
from reconciler.state.store import Lease, Store, no_longer_ours
from tests.state.worlds import SimulatedClock

EVERY_S = 20.0


class Backend:
    """What `renew` does next, and how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.failure: Exception | None = None

    def renew(self) -> None:
        self.asked += 1
        if self.failure is not None:
            raise self.failure


@pytest.fixture
def backend() -> Backend:
    return Backend()


@pytest.fixture
def renewal(backend: Backend) -> Renewal:
    return Renewal(backend.renew, EVERY_S, 0.0)


def seconds(renewal: Renewal, begin: int, end: int, *, answers: bool = True) -> None:
    """Each second from `begin` to `end` the thread has its turn. `answers`: so does the loop."""
    for now_s in range(begin, end + 1):
        if answers:
            renewal.answered(now_s)
        renewal.turn(now_s)


def test_it_is_renewed_three_times_in_its_time(renewal: Renewal, backend: Backend) -> None:
    seconds(renewal, 1, 59)
    assert backend.asked == 2
    seconds(renewal, 60, 60)
    assert backend.asked == 3


def test_nothing_is_renewed_for_a_loop_that_hangs_until_it_answers_again(
    renewal: Renewal, backend: Backend
) -> None:
    seconds(renewal, 1, 12)
    seconds(renewal, 13, 12 + int(QUIET_S), answers=False)
    assert backend.asked == 1  # it may be slow for as long as that
    seconds(renewal, 13 + int(QUIET_S), 500, answers=False)
    assert backend.asked == 1
    seconds(renewal, 501, 501)
    assert backend.asked == 2


def test_a_failure_is_tried_again_soon(renewal: Renewal, backend: Backend) -> None:
    backend.failure = StoreError("the store is not there")
    seconds(renewal, 1, 20)
    assert (backend.asked, renewal.failure) == (1, backend.failure)
    seconds(renewal, 21, 30)
    assert backend.asked == 3
    backend.failure = None
    seconds(renewal, 31, 35)
    assert (backend.asked, renewal.failure) == (4, None)
    seconds(renewal, 36, 54)
    assert backend.asked == 4


@pytest.mark.parametrize("failure", [no_longer_ours("shop"), TypeError("a bug")])
def test_after_a_loss_nothing_is_renewed_ever_again(
    renewal: Renewal, backend: Backend, failure: Exception
) -> None:
    backend.failure = failure
    seconds(renewal, 1, 20)
    backend.failure = None
    seconds(renewal, 21, 500)
    assert (backend.asked, renewal.failure, renewal.ended) == (1, failure, True)


# --- the thread ---


class Expiring(MemoryStore):
    """A store whose leases last a moment, and whose renewals the test waits for."""

    lease_s = 0.03

    def __init__(self, clock: SimulatedClock) -> None:
        super().__init__(MemoryState(clock, lease_s=60))
        self.failure: Exception | None = None
        self.begun, self.goes_on = threading.Semaphore(0), threading.Event()
        self.goes_on.set()

    def beat(self, lease: Lease) -> None:
        self.begun.release()
        self.goes_on.wait(30)
        if self.failure is not None:
            raise self.failure

    async def renewals(self, count: int) -> None:
        for _ in range(count):
            assert await anyio.to_thread.run_sync(self.begun.acquire, True, 30)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(renewing, "_LOOK_S", 0.002)
    monkeypatch.setattr(renewing, "_AGAIN_S", 0.002)
    before = threading.active_count()
    yield
    assert threading.active_count() <= before + 1  # a worker of anyio's


@pytest.fixture
def store(clock: SimulatedClock) -> Expiring:
    return Expiring(clock)


@pytest.mark.usefixtures("quick")
class TestTheThread:
    async def test_it_renews_until_the_block_ends(self, store: Expiring) -> None:
        async with renewed(Store(Store(store)), Lease("me", {"shop": 1}), print):
            await store.renewals(3)
        while store.begun.acquire(blocking=False):
            pass
        assert not store.begun.acquire(timeout=0.05)

    async def test_a_failure_is_told_once_and_does_not_end_the_block(self, store: Expiring) -> None:
        told: list[str] = []
        store.failure = StoreError("the store is not there")
        async with renewed(store, Lease("me", {"shop": 1}), told.append):
            await store.renewals(3)
            while not told:
                await anyio.lowlevel.checkpoint()
        assert told == ["the store is not there"]

    async def test_a_loss_is_told_and_nothing_more_is_asked(self, store: Expiring) -> None:
        told: list[str] = []
        store.failure = no_longer_ours("shop")
        async with renewed(store, Lease("me", {"shop": 1}), told.append):
            await store.renewals(1)
            while not told:
                await anyio.lowlevel.checkpoint()
            store.failure = None
            assert not store.begun.acquire(timeout=0.05)
        assert isinstance(no_longer_ours("shop"), LeaseLost)
        assert "no longer ours" in told[0]

    async def test_a_bug_in_the_thread_is_not_lost(self, store: Expiring) -> None:
        store.failure = TypeError("a bug")
        with pytest.raises(TypeError, match="a bug"):
            async with renewed(store, Lease("me", {"shop": 1}), print):
                await store.renewals(1)

    async def test_the_block_ends_after_a_renewal_that_is_under_way(self, store: Expiring) -> None:
        """What comes after the block gives the lease back: no renewal may come later."""
        store.goes_on.clear()
        ended = []

        async def hold() -> None:
            async with renewed(store, Lease("me", {"shop": 1}), print):
                await store.renewals(1)
            ended.append(True)

        async with anyio.create_task_group() as group:
            group.start_soon(hold)
            for _ in range(100):
                await anyio.lowlevel.checkpoint()
            assert not ended
            store.goes_on.set()
        assert ended

    async def test_a_lease_without_an_end_needs_no_thread(self, clock: SimulatedClock) -> None:
        before = threading.active_count()
        async with renewed(MemoryStore(MemoryState(clock)), Lease("me", {"shop": 1}), print):
            assert threading.active_count() == before
