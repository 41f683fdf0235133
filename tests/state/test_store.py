"""What every store promises, shown on the SQLite one."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import anyio
import pytest

from reconciler.core.errors import StoreError
from reconciler.core.model import Address, Deletion, Lifecycle, Obligation, StateRecord
from reconciler.state import open_store
from reconciler.state.sqlite.store import SqliteStore
from reconciler.state.store import Event, JournalEntry, Store
from tests.state.conftest import OpenStore
from tests.state.worlds import DATA, NOON, SimulatedClock, entry, record

pytestmark = pytest.mark.anyio


async def test_a_record_comes_back_exactly_as_it_was_stored(store: SqliteStore, another: OpenStore) -> None:
    full = StateRecord(
        Address("Volume", "data", "shop", 2),
        "vol_1",
        "shop",
        {"size_gb": 10, "labels": {"größe": ["a", None, 1.5, True]}, "odd": "\ud800 \0 \N{SNOWMAN}"},
        Lifecycle(Deletion.DELETE, ("extend", "delete"), 60),
        datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=timezone(timedelta(hours=2))),
        source="manifests/shop.yaml",
        obligations=(Obligation("restart", "the file system grew", "unknown", NOON),),
        inferred=True,
    )
    bare = StateRecord(Address("PostgresCluster", "orders"), "", "org/acme", {}, Lifecycle(), NOON)
    lease = await store.lease(["org/acme", "shop"], "me")
    stored = await store.commit(lease, [], [full, bare])

    state = await another().load()
    assert list(state.records.values()) == sorted(stored, key=lambda one: one.address.kind)
    assert [one.applied for one in stored] == [full.applied, bare.applied]
    assert all(one.serial > 0 for one in stored)


async def test_reading_a_state_that_does_not_exist_creates_nothing(store: SqliteStore, path: Path) -> None:
    state = await store.load()
    key = await store.fingerprint_key()
    await store.verify()
    assert (state.lineage, state.records, state.open_intents, state.plans_run) == ("", {}, (), frozenset())
    assert len(key) == 32
    assert not path.parent.exists()


async def test_the_first_lease_makes_lineage_and_key_last(store: SqliteStore, another: OpenStore) -> None:
    key = await store.fingerprint_key()
    await store.lease(["shop"], "me")
    lineage = (await store.load()).lineage
    other = another()
    assert lineage
    assert (await other.load()).lineage == lineage
    assert await other.fingerprint_key() == key == await store.fingerprint_key()


async def test_a_record_that_moved_meanwhile_is_not_replaced(store: SqliteStore) -> None:
    lease = await store.lease(["shop"], "me")
    (first,) = await store.commit(lease, [], [record()])
    (second,) = await store.commit(lease, [], [record(serial=first.serial, size_gb=20)])
    for stale in (0, first.serial):
        with pytest.raises(StoreError, match="Volume/shop/data has changed"):
            await store.commit(lease, [entry(Event.DONE)], [record(serial=stale)])
    assert (await store.load()).records == {DATA: second}


async def test_a_serial_is_not_used_again_after_its_record_was_removed(store: SqliteStore) -> None:
    lease = await store.lease(["shop"], "me")
    (first,) = await store.commit(lease, [], [record()])
    await store.commit(lease, [], remove=[DATA])
    assert (await store.load()).records == {}
    (again,) = await store.commit(lease, [], [record()])
    assert again.serial > first.serial


async def test_a_commit_that_fails_stores_none_of_its_parts(store: SqliteStore) -> None:
    lease = await store.lease(["shop"], "me")
    await store.commit(lease, [], [record()])
    before = await store.load()
    other = Address("Volume", "other", "shop")
    with pytest.raises(StoreError):
        await store.commit(lease, [entry(Event.INTENT)], [record(other), record(serial=999)], [DATA])
    assert await store.load() == before


async def test_data_that_is_not_json_is_refused_before_anything_is_stored(store: SqliteStore) -> None:
    lease = await store.lease(["shop"], "me")
    with pytest.raises(TypeError):
        await store.commit(lease, [entry(Event.DONE, secret=object())])
    with pytest.raises(ValueError, match="JSON"):
        await store.commit(lease, [entry(Event.DONE, number=float("nan"))])
    assert await store.commit(lease, [entry(Event.DONE)]) == ()


async def test_a_record_outside_the_leased_scopes_is_refused(store: SqliteStore) -> None:
    lease = await store.lease(["shop"], "me")
    with pytest.raises(StoreError, match="does not cover `blog`"):
        await store.commit(lease, [], [record(scope="blog")])


@pytest.mark.parametrize("closing", [Event.DONE, Event.FAILED, Event.SETTLED, Event.PENDING])
async def test_an_intent_is_closed_by_its_outcome(store: SqliteStore, closing: Event) -> None:
    lease = await store.lease(["shop"], "me")
    await store.commit(lease, [entry(Event.INTENT), entry(closing)])
    assert (await store.load()).open_intents == ()
    await store.verify()


async def test_an_intent_stays_open_until_its_own_outcome(store: SqliteStore, another: OpenStore) -> None:
    lease = await store.lease(["shop"], "me")
    lost = entry(Event.INTENT, "s1", step_body={"name": "data"}, baseline=["vol_1"])
    second_attempt = entry(Event.INTENT, "s1", attempt=2)
    await store.commit(
        lease,
        [
            lost,
            entry(Event.UNKNOWN, "s1"),
            entry(Event.DONE, "s2"),
            entry(Event.DONE, "s1", run="r2"),
            second_attempt,
        ],
    )
    assert (await another().load()).open_intents == (lost, second_attempt)
    await store.commit(lease, [entry(Event.DONE, "s1", attempt=2)])
    await store.commit(lease, [entry(Event.SETTLED, "s1", attempt=1)])
    assert (await another().load()).open_intents == ()


async def test_an_attempt_cannot_begin_twice(store: SqliteStore) -> None:
    lease = await store.lease(["shop"], "me")
    await store.commit(lease, [entry(Event.INTENT)])
    with pytest.raises(StoreError, match="attempt 1 of step s1 in run r1 has begun already"):
        await store.commit(lease, [entry(Event.INTENT)])


async def test_plans_that_were_started_are_known(store: SqliteStore) -> None:
    lease = await store.lease(["shop"], "me")
    for run, plan in [("r1", "p1"), ("r2", "p2"), ("r3", "p1")]:
        await store.commit(lease, [JournalEntry(run, Event.RUN_STARTED, NOON, data={"plan": plan})])
    assert (await store.load()).plans_run == {"p1", "p2"}
    await store.verify()


async def test_one_failing_commit_of_a_group_does_not_fail_its_neighbours(store: SqliteStore) -> None:
    lease = await store.lease(["shop"], "me")
    refused: list[str] = []

    async def commit(number: int) -> None:
        serial = 999 if number == 3 else 0
        one = record(Address("Volume", f"data{number}", "shop"), serial=serial)
        try:
            await store.commit(lease, [entry(Event.DONE, f"s{number}")], [one])
        except StoreError:
            refused.append(one.address.name)

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(commit, number)

    assert refused == ["data3"]
    names = {address.name for address in (await store.load()).records}
    assert names == {f"data{number}" for number in range(8)} - {"data3"}
    await store.verify()


async def test_concurrent_commits_share_a_transaction(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await store.lease(["shop"], "me")
    sizes: list[int] = []
    flush = store._flush

    def count(batch: Sequence[Any]) -> None:
        sizes.append(len(batch))
        flush(batch)

    monkeypatch.setattr(store, "_flush", count)
    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(store.commit, lease, [entry(Event.DONE, f"s{number}")])
    assert sum(sizes) == 8
    assert len(sizes) <= 2


async def test_a_commit_is_finished_although_its_task_is_cancelled(store: SqliteStore) -> None:
    lease = await store.lease(["shop"], "me")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await store.commit(lease, [], [record()])
    assert DATA in (await store.load()).records


async def test_commits_with_a_lease_that_was_released_are_refused(store: SqliteStore) -> None:
    lease = await store.lease(["shop"], "me")
    await store.check(lease)
    await store.release(lease)
    await store.release(lease)
    with pytest.raises(StoreError, match="the lease of `shop` is no longer ours"):
        await store.check(lease)
    with pytest.raises(StoreError, match="the lease of `shop` is no longer ours"):
        await store.commit(lease, [entry(Event.DONE)])


def test_a_url_is_relative_to_the_root(tmp_path: Path) -> None:
    async def create(store: Store) -> None:
        await store.lease(["shop"], "me")
        await store.close()

    anyio.run(create, open_store("sqlite:deep/er/state.db", root=tmp_path, clock=SimulatedClock()))
    assert (tmp_path / "deep" / "er" / "state.db").is_file()


@pytest.mark.parametrize("url", ["postgresql://user:hunter2@db/state", "state.db", "", "sqlite:"])
def test_an_unknown_backend_is_refused_without_repeating_a_password(url: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError) as refused:
        open_store(url, root=tmp_path, clock=SimulatedClock())
    assert "sqlite:PATH" in refused.value.help
    assert "hunter2" not in str(refused.value) + refused.value.help


async def test_times_in_the_journal_keep_their_zone(store: SqliteStore) -> None:
    lease = await store.lease(["shop"], "me")
    at = datetime(2030, 1, 1, 12, 0, 0, 1, tzinfo=UTC)
    intent = JournalEntry("r1", Event.INTENT, at, None, "s1", 1, {})
    await store.commit(lease, [intent])
    assert (await store.load()).open_intents == (intent,)
