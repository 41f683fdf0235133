"""Objects of a state that are torn, lost, foreign or flipped, and lists that lag (see `store_faults`).

Each begins with what stood in the store after an acknowledged commit. What is found then must be all that was
acknowledged, or be named as damage by `load` or `verify`; and a backup must bring it back elsewhere.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from unittest.mock import patch

from reconciler.core.errors import StoreError
from reconciler.core.model import Address
from reconciler.state.contents import StateDump, same
from reconciler.state.log import segments
from reconciler.state.log.bucket import Bucket
from reconciler.state.log.store import LogStore
from reconciler.state.store import Event, JournalEntry, Lease, State
from tests.reliability.proof import Tally
from tests.state.objects.doubles import Wrapped, memory_bucket, objects_of
from tests.state.worlds import NOON, SimulatedClock, entry, record

SCOPES = ("blog", "shop")
STEPS = 24
Objects = Mapping[str, bytes]
Spoil = Callable[[str, Objects, random.Random], bytes | None]


@dataclass(frozen=True)
class Moment:
    """All objects, and what was acknowledged then."""

    objects: Objects
    state: State
    contents: StateDump


@dataclass
class Lagging(Wrapped):
    """Lists show what was there before the newest writes, `behind` of them."""

    behind: int = 0
    past: list[Mapping[str, str]] = field(default_factory=list)

    def create(self, key: str, body: bytes) -> str:
        self.past.append(self.inner.list(""))
        return self.inner.create(key, body)

    def replace(self, key: str, body: bytes, tag: str) -> str:
        self.past.append(self.inner.list(""))
        return self.inner.replace(key, body, tag)

    def list(self, prefix: str) -> Mapping[str, str]:
        shown = self.past[-self.behind] if self.behind else self.inner.list("")
        return {key: tag for key, tag in shown.items() if key.startswith(prefix)}


async def made(bucket: Bucket, clock: SimulatedClock) -> tuple[LogStore, Lease]:
    store = LogStore(bucket, clock, random.Random(1).randbytes)
    await store.create()
    return store, await store.lease(SCOPES, "holder")


async def write(store: LogStore, lease: Lease, number: int) -> None:
    """An intent, and for most of them the outcome with its record."""
    step, of = f"s{number}", lease.of(SCOPES[number % 2])
    text = "x" * (number * 97 % 1500)
    if number == 0:
        await store.commit(of, [JournalEntry("r1", Event.RUN_STARTED, NOON, data={"plan": "plan-1"})])
    await store.commit(of, [entry(Event.INTENT, step, text=text, scope=of.scope)])
    if number % 6:
        volume = record(Address("Volume", step, of.scope), scope=of.scope)
        await store.commit(of, [entry(Event.DONE, step, text=text)], [volume])


async def history() -> Sequence[Moment]:
    """What stood in the store after each commit of a state that is long enough for segments and a base."""
    bucket, clock = memory_bucket(), SimulatedClock()
    store, lease = await made(bucket, clock)
    moments = []
    for number in range(STEPS):
        await write(store, lease, number)
        moments.append(await moment(bucket, clock))
    return moments


async def moment(bucket: Bucket, clock: SimulatedClock) -> Moment:
    reader = LogStore(bucket, clock)
    return Moment(objects_of(bucket), await reader.load(), await reader.export())


# --- what becomes of one object ---


def _torn(key: str, objects: Objects, chance: random.Random) -> bytes:
    return objects[key][: chance.randrange(len(objects[key]))]


def _lost(key: str, objects: Objects, chance: random.Random) -> None:
    return None


def _foreign(key: str, objects: Objects, chance: random.Random) -> bytes:
    """Another object of the state, or one that is not of any."""
    return chance.choice([*(body for other, body in sorted(objects.items()) if other != key), b"", b"{}"])


def _flipped(key: str, objects: Objects, chance: random.Random) -> bytes:
    body = bytearray(objects[key])
    body[chance.randrange(len(body))] ^= 1 << chance.randrange(8)
    return bytes(body)


SPOILS: Mapping[str, Spoil] = {"torn": _torn, "lost": _lost, "foreign": _foreign, "flipped": _flipped}


def kind_of(key: str) -> str:
    return "root" if key.count("/") == 1 else key.split("/")[2]


async def spoiled(count: int, seed: int, tally: Tally) -> None:
    chance = random.Random(seed)
    moments = (await history())[1:]
    kinds = sorted({kind_of(key) for each in moments for key in each.objects} - {"leases"})
    for number in range(count):
        how, spoil = sorted(SPOILS.items())[number % len(SPOILS)]
        kind = kinds[number // len(SPOILS) % len(kinds)]
        having = [each for each in moments if any(kind_of(key) == kind for key in each.objects)]
        before = chance.choice(having)
        key = chance.choice([key for key in sorted(before.objects) if kind_of(key) == kind])
        body = spoil(key, before.objects, chance)
        objects = {other: content for other, content in before.objects.items() if other != key}
        if body is not None:
            objects[key] = body
        found = await judged(memory_bucket(objects), before)
        tally.counts[f"{kind}, {how}: {'damage named' if found.named else 'all there'}"] += 1
        tally.violations += [f"{kind}, {how} ({number}, {key}): {each}" for each in found.wrong]
        if found.named:
            await _restored(before, tally)


@dataclass
class Found:
    named: bool = False
    wrong: list[str] = field(default_factory=list)


async def judged(bucket: Bucket, before: Moment) -> Found:
    """What a new runner finds."""
    store, found = LogStore(bucket, SimulatedClock()), Found()
    try:
        state = await store.load()
        contents = await store.export()
        await store.verify()
    except StoreError as failure:
        found.named = True
        if not any(word in failure.message for word in ("damaged", "no state", "belongs to", "newer")):
            found.wrong.append(f"not named: {failure.message}")
        return found
    if not state.lineage:
        found.named = True  # the root is gone: `plan` says that there is no state, and `apply` sends nothing
        return found
    if state != before.state:
        found.wrong.append("the state is another one, and nobody says so")
    elif not same(contents, before.contents) or contents.key != before.contents.key:
        found.wrong.append("what is stored is another thing, and nobody says so")
    return found


async def _restored(before: Moment, tally: Tally) -> None:
    """A backup is the contents: they come back in another place."""
    store = LogStore(memory_bucket(), SimulatedClock())
    await store.import_(before.contents)
    if await store.load() != before.state:
        tally.violations.append("the restore lost something")


# --- lists that lag ---


async def lagging(count: int, seed: int, tally: Tally) -> None:
    """A runner that takes the lease sees all that was acknowledged, however old the lists are; or says no."""
    chance = random.Random(seed)
    for _ in range(count):
        clock = SimulatedClock()
        bucket = Lagging(memory_bucket())
        store, lease = await made(bucket, clock)
        for step in range(chance.randrange(1, 10)):
            await write(store, lease, step)
        await store.release(lease)
        known = await LogStore(bucket.inner, clock).load()
        heir, bucket.behind = LogStore(bucket, clock), chance.randrange(1, min(8, len(bucket.past)))
        if chance.random() < 0.5:  # it has seen the state before
            with suppress(StoreError):
                await heir.load()
            await _one_more(bucket.inner, clock)
            known = await LogStore(bucket.inner, clock).load()
        try:
            await heir.lease(SCOPES, "heir")
            state = await heir.load()
        except StoreError:
            tally.counts["lists that lag: refused"] += 1
            continue
        tally.counts["lists that lag: all there"] += 1
        if state != known:
            tally.violations.append(f"a list {bucket.behind} writes old hides what was acknowledged")


async def _one_more(bucket: Bucket, clock: SimulatedClock) -> None:
    """What another runner writes meanwhile."""
    store = LogStore(bucket, clock)
    lease = await store.lease(SCOPES, "another")
    await write(store, lease, STEPS)
    await store.release(lease)


async def run(count: int, lag_count: int, seed: int, tally: Tally) -> None:
    with patch.object(segments, "TAIL_BYTES", 3_000), patch.object(segments, "BASE_BYTES", 6_000):
        await spoiled(count, seed, tally)
        await lagging(lag_count, seed, tally)
