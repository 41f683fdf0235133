"""What the one store does in moments that no run meets by itself: others write meanwhile, or damage it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

import pytest

from reconciler.core.errors import LeaseLost, StoreError
from reconciler.core.model import Address
from reconciler.state.codec import encode_entry
from reconciler.state.log import head as heads
from reconciler.state.log import reading, root, scopes, segments
from reconciler.state.log.bucket import Bucket, Layout
from reconciler.state.log.changes import Change, StoredRecord
from reconciler.state.log.damage import Contradiction, Damaged, Gone
from reconciler.state.log.leases import Leases
from reconciler.state.log.scope_state import ScopeState, ScopeSummary, Wanted, validate
from reconciler.state.log.scopes import Scopes
from reconciler.state.log.store import LogStore
from reconciler.state.places.memory import MemoryBucket, MemoryHolders, MemoryState
from reconciler.state.store import Event
from tests.state.objects.doubles import Wrapped
from tests.state.worlds import DATA, SimulatedClock, entry, record


@dataclass
class Meanwhile(Wrapped):
    """`act` happens right before, or after, an object in `folder` is written; or before a list is made."""

    folder: str = "no folder"
    act: Callable[[], object] = lambda: None
    after: bool = False
    times: int = 1

    def replace(self, key: str, body: bytes, tag: str) -> str:
        if self.folder not in key:
            return super().replace(key, body, tag)
        if not self.after:
            self._act()
        new = super().replace(key, body, tag)
        if self.after:
            self._act()
        return new

    def list(self, prefix: str) -> Mapping[str, str]:
        if self.folder == "list":
            self._act()
        return super().list(prefix)

    def _act(self) -> None:
        if self.times:
            self.times -= 1
            self.act()


@pytest.fixture
def state(clock: SimulatedClock) -> MemoryState:
    return MemoryState(clock)


@pytest.fixture
def bucket(state: MemoryState) -> Meanwhile:
    return Meanwhile(MemoryBucket(state))


@pytest.fixture
async def store(bucket: Meanwhile, state: MemoryState) -> LogStore:
    store = handle(bucket, state)
    await store.create()
    return store


def handle(bucket: Bucket, state: MemoryState) -> LogStore:
    return LogStore(bucket, state.clock, exclusion=MemoryHolders(state))


def other(state: MemoryState) -> LogStore:
    return handle(MemoryBucket(state), state)


def leases_of(store: LogStore) -> Leases:
    return store._require_state()[0].leases


def scopes_of(store: LogStore) -> Scopes:
    return store._require_state()[0].scopes


def layout_of(store: LogStore) -> Layout:
    return store._require_state()[0].layout


def advance(store: LogStore, *names: str) -> None:
    """Another head, with one more entry, as each commit makes one."""
    known = scopes_of(store)
    known.refresh(names)
    for name in names:
        seen, wanted = known.seen(name), Wanted(name, [encode_entry(entry(Event.DECIDED))], (), ())
        change = validate(seen.marks, lambda address: None, lambda address: None, wanted, known.nonce())
        assert known.advance(seen, [change])


async def test_a_scope_that_is_lost_from_memory_while_it_is_written_is_whole_again(
    store: LogStore, bucket: Meanwhile, state: MemoryState
) -> None:
    lease = await store.lease(["shop"], "anna")
    await store.commit(lease.of("shop"), [], [record(DATA)])
    head, objects = layout_of(store).head("shop"), MemoryBucket(state)

    def fail_to_read_again() -> None:
        found = objects.get(head)
        assert found is not None
        objects.delete(head)
        with pytest.raises(Gone):
            scopes_of(store).read_again(["shop"])
        objects.create(head, found.body)

    bucket.folder, bucket.act, bucket.after = "/heads/", fail_to_read_again, True
    more = Address("Volume", "more", "shop")
    await store.commit(lease.of("shop"), [], [record(more)])
    assert bucket.times == 0
    assert set((await store.load()).records) == {DATA, more}


async def test_no_scope_is_shown_that_is_lost_from_memory_at_that_moment(
    store: LogStore, state: MemoryState
) -> None:
    lease = await store.lease(["shop"], "anna")
    await store.commit(lease.of("shop"), [], [record(DATA)])
    known = scopes_of(store)
    with known.of("shop").lock:
        known._forget(known.of("shop"))
    with pytest.raises(Contradiction):
        reading.state_of(known, "lineage", ["shop"])


async def test_a_file_that_was_merged_meanwhile_costs_nothing_that_is_known(
    store: LogStore, state: MemoryState, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await store.lease(["shop"], "anna")
    await store.commit(lease.of("shop"), [], [record(DATA)])
    watcher = other(state)
    assert DATA in (await watcher.load()).records
    monkeypatch.setattr(segments, "TAIL_BYTES", 1)
    for name in ("a", "b", "c"):
        await store.commit(lease.of("shop"), [], [record(Address("Volume", name, "shop"))])
    known = scopes_of(watcher)
    for key in MemoryBucket(state).list(layout_of(store).segment("shop", "")):
        MemoryBucket(state).delete(key)
    with pytest.raises(Gone):
        known.refresh(["shop"])
    assert set(known.of("shop").folded.records) == {DATA}


async def test_a_scope_whose_head_is_gone_is_not_taken(store: LogStore, state: MemoryState) -> None:
    await store.release(await store.lease(["shop"], "anna"))
    MemoryBucket(state).delete(layout_of(store).head("shop"))
    with pytest.raises(StoreError, match="the head of `shop` is missing"):
        await other(state).lease(["shop"], "ben")


async def test_a_lease_that_is_not_what_was_written_is_damage(store: LogStore, state: MemoryState) -> None:
    await store.lease(["shop"], "anna")
    bucket = MemoryBucket(state)
    ((key, tag),) = bucket.list(layout_of(store).leases).items()
    bucket.replace(key, b'{"freed": []}', tag)
    with pytest.raises(StoreError, match=r"the lease \w+ is not what was written"):
        await other(state).holders(["shop"])


async def test_a_lock_is_broken_although_its_holder_beats_at_that_moment(
    store: LogStore, bucket: Meanwhile, state: MemoryState
) -> None:
    holder = other(state)
    lease = await holder.lease(["blog", "shop"], "anna")
    bucket.folder = "/leases/"
    bucket.act = lambda: leases_of(holder)._beat(leases_of(holder)._held["shop", 1])
    assert "lock taken from anna" in await store.unlock("shop", force=True)
    await holder.release(lease.of("blog"))  # over a beat that is not its own
    with pytest.raises(LeaseLost):
        await holder.check(lease.of("shop"))


async def test_what_was_ended_by_a_move_cannot_be_given_back_or_renewed(
    store: LogStore, state: MemoryState
) -> None:
    held = await store.lease(["blog", "shop"], "anna")
    leases_of(other(state)).fence("shop")
    await store.release(held.of("blog"))
    with pytest.raises(LeaseLost):
        await store.check(held.of("shop"))
    ended = await store.lease(["wiki"], "anna")
    leases_of(other(state)).fence("wiki")
    leases_of(store)._beat(leases_of(store)._held["wiki", 1])
    with pytest.raises(LeaseLost):
        await store.check(ended)


async def test_a_scope_that_is_lost_while_it_is_given_back_is_lost_once(store: LogStore) -> None:
    lease = await store.lease(["shop"], "anna")
    await store.release(lease)
    leases_of(store).mark_lost("shop", lease.epochs["shop"])
    with pytest.raises(LeaseLost):
        await store.check(lease)


async def test_a_scope_is_fenced_although_its_holder_commits_at_that_moment(
    store: LogStore, bucket: Meanwhile, state: MemoryState
) -> None:
    holder = other(state)
    await holder.lease(["shop"], "anna")
    bucket.folder, bucket.act = "/heads/", lambda: advance(holder, "shop")
    leases_of(store).fence("shop")
    assert scopes_of(store).of("shop").head.epoch == 2


async def test_who_never_gets_to_write_the_root_gives_up(
    store: LogStore, bucket: Meanwhile, state: MemoryState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(root, "_RACES", 3)
    rival = other(state)
    rival._load()
    bucket.folder, bucket.times = "state.json", 3
    bucket.act = lambda: root.change(rival.bucket, rival._layout, lambda known: known, rival._nonce())
    with pytest.raises(StoreError, match="others were faster 3 times"):
        await store.lease(["shop"], "anna")
    await store.lease(["shop"], "anna")


async def test_a_root_that_is_deleted_at_that_moment_is_no_state(
    store: LogStore, bucket: Meanwhile, state: MemoryState
) -> None:
    bucket.folder, bucket.act = "state.json", lambda: MemoryBucket(state).delete("base/state.json")
    with pytest.raises(StoreError, match="there is no state"):
        await store.lease(["shop"], "anna")


async def test_a_sound_state_is_accepted_as_it_is(store: LogStore, state: MemoryState) -> None:
    await store.lease(["shop"], "anna")
    before = dict(state.objects)
    await store.accept()
    assert state.objects == before


async def test_a_root_of_another_environment_or_a_newer_program_or_a_damaged_one_is_refused(
    store: LogStore, state: MemoryState
) -> None:
    bucket, clock = MemoryBucket(state), state.clock
    found = bucket.get("base/state.json")
    assert found is not None
    bucket.create("prod/state.json", found.body)
    with pytest.raises(StoreError, match="belongs to environment `base`, and not to `prod`"):
        await LogStore(bucket, clock, environment="prod").load()
    newer = found.body.replace(b'"format": 1', b'"format": 9')
    tag = bucket.replace("base/state.json", newer, found.tag)
    with pytest.raises(StoreError, match="newer version of this program"):
        await other(state).load()
    bucket.replace("base/state.json", found.body.replace(b'"lineage"', b'"linage"'), tag)
    with pytest.raises(StoreError, match=r"is damaged: state\.json is not what was written"):
        await other(state).load()


async def test_a_place_that_holds_something_else_gets_no_state(clock: SimulatedClock) -> None:
    @dataclass
    class Shared(Wrapped):
        def list_beside(self) -> tuple[str, ...]:
            return ("photo.jpg",)

    state = MemoryState(clock)
    with pytest.raises(StoreError, match=r"do not belong to a state, such as photo\.jpg"):
        await handle(Shared(MemoryBucket(state)), state).create()
    MemoryBucket(state).create("base/0/heads/shop", b"")
    with pytest.raises(StoreError, match="there are traces of one, such as base/0/heads/shop"):
        await other(state).create()


async def test_a_head_that_was_read_before_its_writer_heard_of_it_counts_once(
    store: LogStore, bucket: Meanwhile, state: MemoryState
) -> None:
    lease = await store.lease(["shop"], "anna")
    bucket.folder, bucket.after, bucket.act = "/heads/", True, lambda: scopes_of(store).refresh(["shop"])
    (stored,) = await store.commit(lease, [entry(Event.DONE)], [record()])
    assert (await store.load()).records == {DATA: stored}
    assert await other(state).load() == await store.load()


async def test_an_older_head_than_the_known_one_says_nothing(store: LogStore) -> None:
    lease = await store.lease(["shop"], "anna")
    before = store.bucket.get(layout_of(store).head("shop"))
    assert before is not None
    await store.commit(lease, [entry(Event.DONE)], [record()])
    assert scopes_of(store).take("shop", before) == ()
    assert scopes_of(store).of("shop").head.changes == 1


async def test_a_state_that_changes_all_the_time_is_not_read_for_ever(
    store: LogStore, bucket: Meanwhile, state: MemoryState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scopes, "_AT_MOST", 3)
    writer = other(state)
    lease = await writer.lease(["blog", "shop"], "anna")
    await store.load()
    bucket.folder, bucket.times, bucket.act = "list", 99, lambda: advance(writer, "blog", "shop")
    with pytest.raises(StoreError, match="changes faster than it can be read"):
        await store.load()
    monkeypatch.setattr(scopes, "_PATIENT", 0)
    await store.load()  # one scope after the other, as no record leaves its scope
    bucket.times = 0
    await writer.commit(lease.of("shop"), [entry(Event.DONE)])
    await store.load()


def test_what_is_no_head_counts_as_one_that_was_used() -> None:
    assert heads.is_used(b"")
    assert heads.is_used(b"{}\n")


def test_a_record_that_cannot_be_read_is_damage() -> None:
    folded = ScopeState(ScopeSummary("lineage"))
    change = Change(1, "id", put=[StoredRecord(DATA, 1, "{}")])
    with pytest.raises(Damaged, match="the record of Volume/shop/data is not what was written"):
        folded.take(change, folded.marks)


def test_an_entry_that_cannot_be_read_is_damage() -> None:
    *columns, data = encode_entry(entry(Event.DONE))
    with pytest.raises(Damaged, match="holds what was never written there"):
        reading.entry_of(cast("tuple[str, str, str, None, str, int, str]", (*columns, data[:-1])))


async def test_a_record_in_two_scopes_is_damage(store: LogStore) -> None:
    lease = await store.lease(["blog", "shop"], "anna")
    await store.commit(lease.of("shop"), [entry(Event.DONE)], [record()])
    known = scopes_of(store)
    known.of("blog").folded.records[DATA] = known.of("shop").folded.records[DATA]
    with pytest.raises(Damaged, match="have a record at one address"):
        reading.state_of(known, "lineage", ["blog", "shop"])
