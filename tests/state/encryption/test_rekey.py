"""`state rekey`, stopped at each step: the state is what it was, or refused, and the next one ends it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from reconciler.core.context import Attribution
from reconciler.core.errors import Locked, ReconcilerError, StateMoved, StateSealed, StoreError
from reconciler.execution.decisions import Actor
from reconciler.project.copies import Rekeyed, rekey
from reconciler.state.encryption.bucket import Encryption, SealedBucket
from reconciler.state.log.bucket import Bucket, Found
from reconciler.state.log.store import LogStore
from reconciler.state.places.memory import MemoryState, MemoryStore
from reconciler.state.places.postgres import connections
from reconciler.state.places.postgres.connections import Row
from reconciler.state.places.postgres.store import PostgresStore
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.spooling import Spooling
from reconciler.state.store import Event, JournalEntry, State, Store
from tests.providers.postgres import Postgres
from tests.state.encryption.doubles import ANA, BEN, in_memory, spooling
from tests.state.moving import Filled, filled
from tests.state.objects.doubles import Wrapped, memory_bucket, objects_of
from tests.state.postgres.conftest import database, postgres  # noqa: F401 - fixtures
from tests.state.worlds import SimulatedClock, entry

T = TypeVar("T")

PLACE = "s3://team/state"
STRIDE = 6  # of a database's messages, one in so many is tried here: each takes half a second
REFUSED = r"was replaced by another one during this run|cannot be read|not touched"
BY = Attribution("ana@host", reason="ben has left")
WAYS: Mapping[str, tuple[Encryption, Encryption]] = {
    "encrypt": (Encryption(), ANA.changing),
    "rotate": (ANA.alone, replace(ANA.reads(ANA.recipient, BEN.recipient), changing=True)),
    "decrypt": (ANA.alone, replace(ANA.reads(), changing=True)),
}


class Killed(BaseException):
    pass


@dataclass
class Dying(Wrapped):
    """A bucket whose user is killed at the write number `at`: just before it, or just after."""

    at: int = 0
    landed: bool = False
    writes: int = 0

    def get(self, key: str) -> Found | None:
        self._alive()
        return super().get(key)

    def create(self, key: str, body: bytes) -> str:
        return self._write(lambda: self.inner.create(key, body))

    def replace(self, key: str, body: bytes, tag: str) -> str:
        return self._write(lambda: self.inner.replace(key, body, tag))

    def delete(self, key: str) -> None:
        self._write(lambda: self.inner.delete(key))

    def list(self, prefix: str) -> Mapping[str, str]:
        self._alive()
        return super().list(prefix)

    def _alive(self) -> None:
        if self.at and self.writes >= self.at:
            raise Killed

    def _write(self, work: Callable[[], T]) -> T:
        self._alive()
        self.writes += 1
        if self.writes == self.at and not self.landed:
            raise Killed
        done = work()
        self._alive()
        return done


Open = Callable[[Encryption], LogStore]


def opens(bucket: Bucket, clock: SimulatedClock) -> Open:
    return lambda encryption: LogStore(SealedBucket(bucket, encryption), clock)


async def whole(store: LogStore, folder: Path, clock: SimulatedClock) -> Filled:
    """A state with something of each kind in it, but a move that a lease would end."""
    made, spooled = await filled(store), spooling(store, folder, clock)
    await spooled.release(await spooled.lease(["blog", "shop"], "me"))
    return replace(made, state=await store.load())


async def rekeyed(backend: LogStore, folder: Path, clock: SimulatedClock) -> Rekeyed:
    store = spooling(backend, folder, clock)
    return await rekey(store, PLACE, Actor(clock, "ana", BY, timeout_s=200))


async def loaded(store: Store) -> State | str:
    """The state, or why it is refused."""
    try:
        return await store.load()
    except StateMoved as moved:
        return moved.diagnostics[0].code
    except StateSealed:
        return "another key"


async def known(store: Store) -> tuple[State, Sequence[tuple[str, JournalEntry]], bytes]:
    """What must not change: all but the note of the rekey."""
    journal = [each for each in await store.journal() if "rekeyed" not in each[1].data]
    journal.sort(key=lambda each: each[0])  # scopes of one time have no common order in a bucket
    return await store.load(), journal, await store.fingerprint_key()


async def require_same(opened: Open, way: str, before: Filled, journal: object) -> None:
    settings = replace(WAYS[way][1], changing=False)
    store = opened(settings)
    state, after, key = await known(store)
    assert (state, key) == (before.state, before.key)
    assert after == journal
    await store.verify()
    others = [Encryption(), ANA.alone] if way != "rotate" else [Encryption()]
    for other in others:
        if bool(other.recipients) is not bool(settings.recipients):
            with pytest.raises(StoreError):
                await opened(other).load()


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
async def test_killed_at_any_write_to_a_bucket_it_can_be_ended(
    way: str, tmp_path: Path, clock: SimulatedClock
) -> None:
    first, second = WAYS[way]
    origin = memory_bucket()
    before = await whole(opens(origin, clock)(first), tmp_path, clock)
    _, journal, _ = await known(before.store)
    content = objects_of(origin)
    refused, at, ended = 0, 0, False
    while not ended:
        at += 1
        bucket = memory_bucket(content)
        try:
            # In turns just before the write, and just after it.
            dying = Dying(bucket, at, landed=at % 2 == 0)
            await rekeyed(opens(dying, clock)(second), tmp_path, clock)
            ended = True
        except* Killed:  # also in a group of tasks
            pass

        opened = opens(bucket, clock)
        for settings in (first, replace(second, changing=False)):
            shown = await loaded(opened(settings))
            assert shown in (before.state, "rekey-unfinished", "another key")
            refused += shown == "rekey-unfinished"
        await rekeyed(opened(second), tmp_path, clock)
        await require_same(opened, way, before, journal)
        generations = {key.split("/")[1] for key in bucket.list("")}
        assert len(generations) == 2  # state.json, and the one folder that it names
    assert at > 10
    assert refused > 5


@pytest.mark.slow
@pytest.mark.parametrize("way", ["rotate"])
async def test_killed_at_any_message_to_a_database_it_can_be_ended(
    way: str,
    database: Postgres,  # noqa: F811 - a fixture
    tmp_path: Path,
    clock: SimulatedClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = WAYS[way]
    stores: list[PostgresStore] = []

    def opened(encryption: Encryption) -> PostgresStore:
        def seal(bucket: Bucket) -> Bucket:
            return SealedBucket(bucket, encryption)

        stores.append(
            PostgresStore(database.url, clock, now=lambda: f"timestamptz '{clock.now()}'", seal=seal)
        )
        return stores[-1]

    before = await whole(opened(first), tmp_path, clock)
    _, journal, _ = await known(before.store)
    database.rows("CREATE TABLE kept AS SELECT * FROM reconcile.objects")
    send, at, asked = connections._send, 0, 0

    def dying(*message: Any) -> list[list[Row]]:
        nonlocal asked
        asked += 1
        if at and asked > at:
            raise Killed
        found = send(*message)
        if asked == at:
            raise Killed  # it has landed, and nobody has heard of it
        return found

    ended = False
    while not ended:
        at, asked = at + STRIDE, 0
        database.rows("DELETE FROM reconcile.objects")
        database.rows("INSERT INTO reconcile.objects SELECT * FROM kept")
        with monkeypatch.context() as patch:
            patch.setattr(connections, "_send", dying)
            store = opened(second)
            try:
                await rekeyed(store, tmp_path, clock)
                ended = True
            except (Killed, BaseExceptionGroup):
                pass
        for store in stores:
            await store.close()
        await rekeyed(opened(second), tmp_path, clock)
        await require_same(opened, way, before, journal)
        for store in stores:
            await store.close()
    assert at > 10


@pytest.mark.parametrize("way", WAYS)
async def test_a_run_that_holds_a_lease_keeps_its_state_as_it_is(
    way: str, tmp_path: Path, clock: SimulatedClock
) -> None:
    first, second = WAYS[way]
    known = MemoryState(clock)
    before = await whole(in_memory(known, first), tmp_path, clock)
    lease = await before.store.lease(["shop"], "ben")
    with pytest.raises(Locked, match="`shop` has been locked by ben"):
        await rekeyed(in_memory(known, second), tmp_path, clock)
    assert await before.store.load() == before.state
    await before.store.release(lease)
    done = await rekeyed(in_memory(known, second), tmp_path, clock)
    assert done.records == len(before.state.records)


async def test_a_run_from_before_can_neither_write_nor_read_wrongly(
    tmp_path: Path, clock: SimulatedClock
) -> None:
    for way, (first, second) in WAYS.items():
        known = MemoryState(clock)
        old = in_memory(known, first)
        await filled(old)
        lease = await old.lease(["shop"], "ben")
        await old.release(lease)
        await rekeyed(in_memory(known, second), tmp_path, clock)
        with pytest.raises(StoreError, match=REFUSED):
            await old.load()
        with pytest.raises(StoreError):
            await old.commit(lease, [entry(Event.INTENT, way)])


async def test_the_history_tells_of_it(tmp_path: Path, clock: SimulatedClock) -> None:
    known = MemoryState(clock)
    await filled(in_memory(known, Encryption()))
    done = await rekeyed(in_memory(known, ANA.changing), tmp_path, clock)
    journal = await in_memory(known).journal()
    (entry,) = [entry for _, entry in journal if "rekeyed" in entry.data]
    said = {
        "rekeyed": 1,
        "generation": 1,
        "head": done.head_before,
        "by": "ana@host",
        "reason": "ben has left",
    }
    assert entry.data == said


async def test_a_state_in_a_file_gets_no_key(tmp_path: Path, clock: SimulatedClock) -> None:
    store = Spooling(SqliteStore(tmp_path / "state.db", clock), tmp_path / "spool", clock)
    with pytest.raises(ReconcilerError, match="is in a file of this machine"):
        await rekey(store, "sqlite:state.db", Actor(clock, "ana", BY))


async def test_a_state_that_is_elsewhere_gets_no_key(tmp_path: Path, clock: SimulatedClock) -> None:
    known = MemoryState(clock)
    await filled(MemoryStore(known))
    backend = MemoryStore(known)
    await backend.retire("s3://other", await backend.export())
    with pytest.raises(StateMoved):
        await rekeyed(in_memory(known, ANA.changing), tmp_path, clock)
