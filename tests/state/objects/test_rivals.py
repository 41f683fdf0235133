"""Two runners on one state, in random order, while answers of the store are lost, late or wrong.

Their wall clocks differ by up to five minutes. What a runner was told must be true: what was stored is there
once, what was refused is not, and nobody writes or sends under a lease that another has.
"""

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import anyio
import pytest

from reconciler.core.errors import Locked, StoreError
from reconciler.core.model import Address
from reconciler.state.contents import verify
from reconciler.state.log import segments
from reconciler.state.log.bucket import Bucket
from reconciler.state.log.lease_beats import Watched
from reconciler.state.log.store import LogStore
from reconciler.state.store import Event, JournalEntry, Lease
from tests.state.objects.doubles import FAULTS, Faulty, memory_bucket
from tests.state.worlds import NOON, SimulatedClock, record, renew

LEASE_S = 60
CALL_S = 20


@dataclass
class Skewed:
    """The clock of one machine."""

    true: SimulatedClock
    skew_s: float
    others_act: Callable[[], Awaitable[None]]

    def now(self) -> datetime:
        return self.true.now() + timedelta(seconds=self.skew_s)

    def monotonic(self) -> float:
        return self.true.monotonic() + self.skew_s

    async def sleep(self, seconds: float) -> None:
        await self.true.sleep(seconds)
        await self.others_act()


@dataclass
class Told:
    """What the runners were told. `safe_until_s`: by runner, for how long it may send under its lease."""

    stored: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    safe_until_s: dict[str, float] = field(default_factory=dict)


class Runner:
    def __init__(
        self, name: str, bucket: Bucket, clock: SimulatedClock, random: random.Random, told: Told
    ) -> None:
        self.name = name
        self._true = clock
        self._random = random
        self._told = told
        self._calls = 0
        faults = [fault for fault in FAULTS for _ in range(2)] + [""] * random.choice([20, 80])
        self.bucket = Faulty(bucket, lambda key: random.choice(faults))
        skewed = Skewed(clock, random.uniform(-300, 300), self._let_others_act)
        self.store = LogStore(self.bucket, skewed, random.randbytes, exclusion=Watched(skewed, LEASE_S))
        self.lease: Lease | None = None
        self.others: list[Runner] = []
        self._busy = False

    async def act(self) -> None:
        if self._busy:
            return
        self._busy = True
        held = [self._commit] * 3 + [self._check] * 3 + [self._renew, self._release, self._load]
        act = self._random.choice(
            held if self.lease is not None else [*[self._take] * 5, self._load, self._force]
        )
        try:
            await act()
        except (StoreError, Locked):
            if act in (self._check, self._renew):
                self.lease = None
        finally:
            self._busy = False

    async def _let_others_act(self) -> None:
        if self._random.random() < 0.2:
            await self._random.choice(self.others).act()

    async def _force(self) -> None:
        """A person takes the lock away, whose holder may still believe that it has it."""
        await self.store.unlock("shop", force=True, by=self.name)
        self._told.safe_until_s.clear()

    async def _take(self) -> None:
        timeout_s = self._random.choice([0, 5, 200])
        self.lease = await self.store.lease(["shop"], self.name, timeout_s=timeout_s)
        for other, until_s in self._told.safe_until_s.items():
            assert other == self.name or until_s <= self._true.elapsed_s, "taken while another may send"

    async def _commit(self) -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(self._random.randrange(1, 4)):
                self._calls += 1
                tasks.start_soon(self._commit_one, f"{self.name}-{self._calls}")

    async def _commit_one(self, id: str) -> None:
        assert self.lease is not None
        done = JournalEntry(id, Event.DONE, NOON, data={"epoch": self.lease.epochs["shop"]})
        try:
            await self.store.commit(self.lease, [done], [record(Address("Volume", id, "shop"))])
        except StoreError as error:
            if "did not take" not in error.message:
                self._told.refused.append(id)
        else:
            self._told.stored.append(id)

    async def _check(self) -> None:
        assert self.lease is not None
        await self.store.check(self.lease, CALL_S)
        self._told.safe_until_s[self.name] = self._true.elapsed_s + CALL_S

    async def _renew(self) -> None:
        assert self.lease is not None
        await renew(self.store, self.lease)

    async def _release(self) -> None:
        assert self.lease is not None
        self._told.safe_until_s.pop(self.name, None)
        lease, self.lease = self.lease, None
        await self.store.release(lease)

    async def _load(self) -> None:
        state = await self.store.load()
        assert {f"{each.name}" for each in state.records} >= set(self._told.stored)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
async def test_what_runners_were_told_is_true(
    block: int, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "TAIL_BYTES", 2_000)
    monkeypatch.setattr(segments, "BASE_BYTES", 4_000)
    for seed in range(block * 6, block * 6 + 6):
        await _play(random.Random(seed), clock)


async def _play(random: random.Random, clock: SimulatedClock) -> None:
    bucket, told = memory_bucket(), Told()
    await LogStore(bucket, clock, random.randbytes).create()
    runners = [Runner(name, bucket, clock, random, told) for name in ("anna", "ben")]
    for runner in runners:
        runner.others = [other for other in runners if other is not runner]
    for _ in range(60):
        runner = random.choice(runners)
        await runner.act()
        if random.random() < 0.3:
            clock.elapsed_s += random.choice([1, 15, 40, 70])
        if random.random() < 0.2:
            random.choice(runners).bucket.let_through()
    for runner in runners:
        runner.bucket.let_through()
    state = await LogStore(bucket, clock).load()
    contents = await LogStore(bucket, clock).export()
    verify(contents)
    runs = Counter(row.columns[0] for row in contents.rows if row.columns[0])
    assert set(runs.values()) <= {1}
    assert set(runs) >= set(told.stored)
    assert not set(runs) & set(told.refused)
    assert {address.name for address in state.records} == set(runs)
    journal = await LogStore(bucket, clock).journal()
    epochs = [entry.data["epoch"] for _, entry in journal if entry.run]
    assert epochs == sorted(epochs), "a stale write"
