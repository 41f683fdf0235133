"""What every state backend must do: a suite that a backend written elsewhere imports, and passes or fails.

Subclass `StoreContract` and give it a fixture `backend`, a `Backend` over a state that does not exist yet:

    class TestMine(StoreContract):
        @pytest.fixture
        def backend(self, clock: SimulatedClock) -> Backend: ...
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any, Protocol

import anyio
import pytest
from msgspec.structs import replace

from reconciler.core.errors import Locked, StoreError
from reconciler.core.model import Address, Deletion, Lifecycle, Obligation, StateRecord
from reconciler.execution.decisions import Actor, recall, remember
from reconciler.state import backend_of
from reconciler.state.chain import row_hash, state_head
from reconciler.state.codec import encode_entry
from reconciler.state.store import WHOLE_STATE, Event, JournalEntry, Run, Store
from tests.state.worlds import DATA, NOON, SimulatedClock, entry, record, renew

LOGS = Address("Volume", "logs", "shop")
POSTS = Address("Volume", "posts", "blog")


class Backend(Protocol):
    """One state, seen from outside. `lease_s`: how long a lease lasts; None: as long as its process."""

    @property
    def clock(self) -> SimulatedClock: ...

    @property
    def lease_s(self) -> float | None: ...

    def open(self) -> Store:
        """One more handle on the state, as another process would have it. The fixture closes it."""
        ...

    async def cut(self, store: Store) -> None:
        """The process of this handle dies: it gives nothing back, and nothing more of it arrives."""
        ...


def _with(more: Mapping[str, Any], before: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**before, **more}


class StoreContract:
    @pytest.fixture
    async def store(self, backend: Backend) -> Store:
        made = backend.open()
        await made.create()
        return made

    # --- the journal ---

    async def test_the_journal_of_no_state_is_empty(self, backend: Backend) -> None:
        assert list(await backend.open().journal()) == []
        assert (await backend.open().load()).heads == {}

    async def test_the_journal_comes_back_exactly_with_its_scopes(
        self, backend: Backend, store: Store
    ) -> None:
        later = NOON + timedelta(seconds=1)
        intent = entry(Event.INTENT, path="/v1/apps/größe \N{SNOWMAN}", deep={"a": [None, 1.5, True]})
        started = JournalEntry("r2", Event.RUN_STARTED, later, data=Run("p2", actor="ana").to_json())
        late = replace(entry(Event.DONE), at=later)
        lease = await store.lease(["blog", "shop"], "me")
        await store.commit(lease.of("shop"), [intent])
        await store.commit(lease.of("blog"), [started])
        await store.commit(lease.of("shop"), [late, replace(late, step="s2")])
        found = await backend.open().journal()
        assert [item for item in found if item[0] == "shop"] == [
            ("shop", intent),
            ("shop", late),
            ("shop", replace(late, step="s2")),
        ]
        assert [item for item in found if item[0] != "shop"] == [("blog", started)]
        assert found[0] == ("shop", intent)

    async def test_the_journal_since_a_time_holds_whole_runs(self, store: Store) -> None:
        lease = await store.lease(["shop"], "me")
        times = [NOON + timedelta(hours=hours) for hours in range(3)]
        old, begun, ended = (
            replace(entry(Event.DONE, run=run), at=at)
            for run, at in zip(("r1", "r2", "r2"), times, strict=True)
        )
        nobodys = [JournalEntry("", Event.DECIDED, at, data={"by": "ben"}) for at in times]
        await store.commit(lease, [old, nobodys[0], begun, nobodys[1], ended, nobodys[2]])
        since = times[2].astimezone(timezone(timedelta(hours=-5)))
        assert [each for _, each in await store.journal(since=since)] == [begun, ended, nobodys[2]]
        assert list(await store.journal(since=times[2] + timedelta(seconds=1))) == []

    async def test_the_head_of_a_scope_follows_from_all_its_entries(
        self, backend: Backend, store: Store
    ) -> None:
        lease = await store.lease(["blog", "shop"], "me")
        first, second = entry(Event.INTENT), entry(Event.DONE)
        await store.commit(lease.of("shop"), [first], [record()])
        await store.commit(lease.of("shop"), [second])
        state = await backend.open().load()
        hash = state.lineage
        for seq, each in enumerate((first, second), start=1):
            *columns, data = encode_entry(each)
            hash = row_hash(hash, seq, columns, data.encode(), "shop")
        assert state.heads == {"shop": hash}
        before = state_head(state.lineage, state.heads)
        await store.commit(lease.of("blog"), [entry(Event.INTENT)])
        after = await backend.open().load()
        assert after.heads["shop"] == hash
        assert state_head(after.lineage, after.heads) != before

    # --- records ---

    async def test_what_is_remembered_survives_and_is_no_object(self, backend: Backend, store: Store) -> None:
        actor, objects = Actor(backend.clock, "me"), await store.lease(["shop"], "me")
        await store.commit(objects.of("shop"), [], [record()])
        rules: Sequence[Mapping[str, Any]] = ({"rules": ["größe", 1]}, {"rules": []})
        for said in rules:
            await remember(store, actor, "approvals", partial(_with, said))
            state = await backend.open().load()
            assert recall(state, "approvals") == said
            assert list(state.records) == [DATA]
            assert recall(state, "something else") == {}
        written = len(await store.journal())
        await remember(store, actor, "approvals", lambda before: before)
        assert len(await store.journal()) == written

    async def test_a_record_comes_back_exactly_as_it_was_stored(self, backend: Backend, store: Store) -> None:
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
        lease = await store.lease(["shop"], "me")
        (stored,) = await store.commit(lease, [], [full])
        assert stored.serial > 0
        assert replace(stored, serial=0) == full
        assert (await backend.open().load()).records == {full.address: stored}

    async def test_reading_a_state_that_does_not_exist_creates_nothing(self, backend: Backend) -> None:
        store = backend.open()
        state = await store.load()
        key = await store.fingerprint_key()
        known = (state.lineage, state.records, state.open_intents, state.plans_run, state.ids)
        assert known == ("", {}, (), frozenset(), {})
        assert len(key) == 32
        assert (await backend.open().load()).lineage == ""

    async def test_no_lease_makes_a_state(self, backend: Backend) -> None:
        store = backend.open()
        with pytest.raises(StoreError, match="there is no state") as refused:
            await store.lease(["shop"], "me")
        assert "reconcile state init" in refused.value.help
        assert (await backend.open().load()).lineage == ""

    async def test_a_state_is_made_once_with_lineage_and_key(self, backend: Backend) -> None:
        store, other = backend.open(), backend.open()
        key = await store.fingerprint_key()
        await other.fingerprint_key()
        assert await store.create()
        assert not await other.create()
        lineage = (await store.load()).lineage
        assert lineage
        assert (await other.load()).lineage == lineage
        await other.lease(["blog"], "ben")
        assert (await other.load()).lineage == lineage
        assert await other.fingerprint_key() == key == await store.fingerprint_key()

    async def test_a_record_that_moved_meanwhile_is_not_replaced(self, store: Store) -> None:
        lease = await store.lease(["shop"], "me")
        (first,) = await store.commit(lease, [], [record()])
        (second,) = await store.commit(lease, [], [record(serial=first.serial, size_gb=20)])
        for stale in (0, first.serial):
            with pytest.raises(StoreError, match="Volume/shop/data has changed"):
                await store.commit(lease, [entry(Event.DONE)], [record(serial=stale)])
        assert (await store.load()).records == {DATA: second}

    async def test_a_serial_is_not_used_again_after_its_record_was_removed(self, store: Store) -> None:
        lease = await store.lease(["shop"], "me")
        (first,) = await store.commit(lease, [], [record()])
        await store.commit(lease, [], remove=[DATA])
        assert (await store.load()).records == {}
        (again,) = await store.commit(lease, [], [record()])
        assert again.serial > first.serial
        assert (await store.load()).serials["shop"] >= again.serial

    async def test_what_is_removed_may_be_missing_and_may_be_put_again(self, store: Store) -> None:
        lease = await store.lease(["shop"], "me")
        await store.commit(lease, [], remove=[LOGS])
        await store.commit(lease, [], [record()])
        (again,) = await store.commit(lease, [], [record(size_gb=20)], [DATA])
        assert (await store.load()).records == {DATA: again}

    async def test_a_commit_that_fails_stores_none_of_its_parts(self, store: Store) -> None:
        lease = await store.lease(["shop"], "me")
        await store.commit(lease, [], [record()])
        before = await store.load()
        with pytest.raises(StoreError):
            await store.commit(lease, [entry(Event.INTENT)], [record(LOGS), record(serial=999)], [DATA])
        assert await store.load() == before

    async def test_data_that_is_not_json_is_refused_before_anything_is_stored(self, store: Store) -> None:
        lease = await store.lease(["shop"], "me")
        with pytest.raises(TypeError):
            await store.commit(lease, [entry(Event.DONE, secret=object())])
        with pytest.raises(ValueError, match="JSON"):
            await store.commit(lease, [entry(Event.DONE, number=float("nan"))])
        assert not await store.commit(lease, [entry(Event.DONE)])

    async def test_a_commit_is_about_one_scope(self, store: Store) -> None:
        lease = await store.lease(["blog", "shop"], "me")
        (posts,) = await store.commit(lease.of("blog"), [], [record(POSTS, scope="blog")])
        for put, remove in (([record(LOGS, scope="blog")], []), ([], [POSTS])):
            with pytest.raises(StoreError, match="does not cover `blog`"):
                await store.commit(lease.of("shop"), [], put, remove)
        with pytest.raises(ValueError, match="unpack"):
            await store.commit(lease, [entry(Event.DONE)])
        with pytest.raises(StoreError, match="does not cover `wiki`"):
            lease.of("wiki")
        assert (await store.load()).records == {POSTS: posts}

    async def test_a_record_of_another_scope_is_not_replaced(self, store: Store) -> None:
        lease = await store.lease(["blog", "shop"], "me")
        (posts,) = await store.commit(lease.of("blog"), [], [record(POSTS, scope="blog")])
        for serial in (posts.serial, 0):
            with pytest.raises(StoreError):
                await store.commit(lease.of("shop"), [], [record(POSTS, scope="shop", serial=serial)])
        assert (await store.load()).records == {POSTS: posts}

    async def test_each_scope_has_serials_of_its_own_and_the_next_one_is_known(
        self, backend: Backend, store: Store
    ) -> None:
        lease = await store.lease(["blog", "shop"], "me")
        for number in range(3):
            serials = (await backend.open().load()).serials
            address = Address("Volume", f"posts{number}", "blog")
            await store.commit(lease.of("blog"), [], [record(address, scope="blog")])
            (stored,) = await store.commit(lease.of("shop"), [], [record(LOGS._replace(ordinal=number))])
            assert stored.serial == serials.get("shop", 0) + 1

    async def test_an_intent_is_closed_in_its_own_scope_while_another_is_open(self, store: Store) -> None:
        lease = await store.lease(["blog", "shop"], "me")
        opened = entry(Event.INTENT, "in blog", scope="blog")
        await store.commit(lease.of("blog"), [opened])
        await store.commit(lease.of("shop"), [entry(Event.INTENT, scope="shop"), entry(Event.DONE)])
        assert (await store.load()).open_intents == (opened,)

    # --- the journal ---

    @pytest.mark.parametrize("closing", [Event.DONE, Event.FAILED, Event.SETTLED, Event.PENDING])
    async def test_an_intent_is_closed_by_its_outcome(self, store: Store, closing: Event) -> None:
        lease = await store.lease(["shop"], "me")
        await store.commit(lease, [entry(Event.INTENT), entry(closing)])
        assert (await store.load()).open_intents == ()

    async def test_an_intent_stays_open_until_its_own_outcome(self, backend: Backend, store: Store) -> None:
        lease = await store.lease(["shop"], "me")
        lost = entry(Event.INTENT, "s1", step_body={"name": "data"}, baseline=["vol_1"])
        second = entry(Event.INTENT, "s1", attempt=2)
        others = [entry(Event.DONE, "s2"), entry(Event.DONE, "s1", run="r2")]
        await store.commit(lease, [lost, entry(Event.UNKNOWN, "s1"), *others, second])
        assert (await backend.open().load()).open_intents == (lost, second)
        await store.commit(lease, [entry(Event.DONE, "s1", attempt=2)])
        await store.commit(lease, [entry(Event.SETTLED, "s1", attempt=1)])
        assert (await backend.open().load()).open_intents == ()

    async def test_an_attempt_cannot_begin_twice(self, store: Store) -> None:
        lease = await store.lease(["shop"], "me")
        await store.commit(lease, [entry(Event.INTENT)])
        with pytest.raises(StoreError, match="attempt 1 of step s1 in run r1 has already started"):
            await store.commit(lease, [entry(Event.INTENT)])

    async def test_plans_that_were_started_are_known(self, store: Store) -> None:
        lease = await store.lease(["shop"], "me")
        for run, plan in [("r1", "p1"), ("r2", "p2"), ("r3", "p1")]:
            await store.commit(lease, [JournalEntry(run, Event.RUN_STARTED, NOON, data={"plan": plan})])
        assert (await store.load()).plans_run == {"p1", "p2"}

    async def test_approvals_that_a_run_used_are_known_as_plans_are(
        self, backend: Backend, store: Store
    ) -> None:
        lease = await store.lease(["shop"], "me")
        used = [
            {"id": name, "statement": f"of {name}\n", "signature": "signed\n"}
            for name in ("approval-1", "approval-2")
        ]
        data = {**Run("p1").to_json(), "approvals": used}
        await store.commit(lease, [JournalEntry("r1", Event.RUN_STARTED, NOON, data=data)])
        again = {**Run("p2").to_json(), "approvals": used[:1]}
        await store.commit(lease, [JournalEntry("r2", Event.RUN_STARTED, NOON, data=again)])
        state = await backend.open().load()
        assert state.plans_run == {"p1", "p2", "approval-1", "approval-2"}
        assert (await store.load()).plans_run == state.plans_run
        assert [entry.data.get("approvals") for _, entry in await store.journal()] == [used, used[:1]]

    async def test_a_plan_has_run_once_it_began_in_one_scope(self, backend: Backend, store: Store) -> None:
        lease = await store.lease(["blog", "shop"], "me")
        for scope, plan in (("blog", "p1"), ("shop", "p1"), ("shop", "p2")):
            began = JournalEntry("r1", Event.RUN_STARTED, NOON, data=Run(plan, actor="me").to_json())
            await store.commit(lease.of(scope), [began])
            assert plan in (await backend.open().load()).plans_run
        assert (await store.load()).plans_run == {"p1", "p2"}

    async def test_the_platform_is_the_one_that_was_recorded_last(
        self, backend: Backend, store: Store
    ) -> None:
        lease = await store.lease([WHOLE_STATE], "me")
        assert (await store.load()).platform == ""
        for url in ("https://a.example", "https://b.example"):
            await store.commit(lease, [JournalEntry("", Event.DECIDED, NOON, data={"platform": url})])
        assert (await backend.open().load()).platform == "https://b.example"

    async def test_an_object_without_a_record_is_told_until_a_person_decides(self, store: Store) -> None:
        lease = await store.lease(["shop"], "me")
        told = [entry(Event.DECIDED, "", unclaimed=id) for id in ("vol_8", "vol_9")]
        await store.commit(lease, told)
        assert (await store.load()).unclaimed == tuple(told)
        await store.commit(lease, [entry(Event.DECIDED, "", claimed="vol_8")])
        assert (await store.load()).unclaimed == (told[1],)

    async def test_times_in_the_journal_keep_their_zone(self, store: Store) -> None:
        lease = await store.lease(["shop"], "me")
        at = datetime(2030, 1, 1, 12, 0, 0, 1, tzinfo=UTC)
        intent = JournalEntry("r1", Event.INTENT, at, None, "s1", 1, {})
        await store.commit(lease, [intent])
        assert (await store.load()).open_intents == (intent,)

    # --- at the same time ---

    async def test_one_failing_commit_does_not_fail_those_beside_it(self, store: Store) -> None:
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

    async def test_scopes_are_written_side_by_side(self, backend: Backend, store: Store) -> None:
        other = backend.open()
        shop, blog = await store.lease(["shop"], "anna"), await other.lease(["blog"], "ben")
        (first,) = await store.commit(shop, [], [record()])
        (posts,) = await other.commit(
            blog, [entry(Event.INTENT, scope="blog")], [record(POSTS, scope="blog")]
        )
        (second,) = await store.commit(shop, [], [record(serial=first.serial)])
        assert (await backend.open().load()).records == {DATA: second, POSTS: posts}

    # --- reading ---

    async def test_the_version_tells_whether_anything_changed(self, backend: Backend, store: Store) -> None:
        lease, other = await store.lease(["shop"], "me"), backend.open()
        versions = [(await other.load()).version]
        assert (await other.load()).version == versions[0]
        for put, remove in (([record()], []), ([], [DATA])):
            await store.commit(lease, [], put, remove)
            versions.append((await other.load()).version)
        await store.commit(lease, [entry(Event.INTENT)])
        assert len({*versions, (await other.load()).version}) == 4

    async def test_some_scopes_are_read_with_the_ids_of_all(self, backend: Backend, store: Store) -> None:
        lease = await store.lease(["blog", "shop"], "me")
        opened = [entry(Event.INTENT, f"in {scope}", scope=scope) for scope in ("blog", "shop")]
        began = JournalEntry("r1", Event.RUN_STARTED, NOON, data={"plan": "p1"})
        await store.commit(lease.of("blog"), [began, opened[0]], [record(POSTS, scope="blog")])
        await store.commit(lease.of("shop"), [opened[1]], [record()])
        whole, part = await store.load(), await backend.open().load(["shop"])
        assert (set(part.records), part.open_intents) == ({DATA}, (opened[1],))
        assert part.ids == whole.ids == {DATA: "vol_data", POSTS: "vol_posts"}
        assert part.plans_run == {"p1"}
        assert (await store.load(())).records == {}

    # --- leases ---

    async def test_a_second_holder_is_told_who_holds_the_scope_and_for_how_long(
        self, backend: Backend, store: Store
    ) -> None:
        await store.lease(["shop"], "anna on build-1")
        backend.clock.elapsed_s += 30
        with pytest.raises(Locked) as locked:
            await backend.open().lease(["blog", "shop"], "ben")
        assert (locked.value.scope, locked.value.holder) == ("shop", "anna on build-1")
        assert locked.value.age_s == pytest.approx(30, abs=1)
        assert backend.clock.elapsed_s == 30

    async def test_who_holds_a_scope_is_told_without_taking_it(self, backend: Backend, store: Store) -> None:
        assert await store.holders(["shop"]) == {}
        held = await store.lease(["shop", "wiki"], "anna on build-1")
        backend.clock.elapsed_s += 30
        for handle in (backend.open(), store):
            found = await handle.holders(["blog", "shop"])
            assert {scope: locked.holder for scope, locked in found.items()} == {"shop": "anna on build-1"}
            assert found["shop"].age_s == pytest.approx(30, abs=1)
        await store.check(held)
        await store.release(held)
        assert await store.holders(["shop"]) == {}

    async def test_one_that_ended_without_a_word_holds_nothing(self, backend: Backend, store: Store) -> None:
        await store.lease(["shop"], "anna")
        await backend.cut(store)
        if backend.lease_s is not None:
            backend.clock.elapsed_s += backend.lease_s + 1
        found = await backend.open().holders(["shop"])
        assert [scope for scope, locked in found.items() if locked.rest_s is None] == []

    async def test_one_of_two_first_leases_is_refused(self, backend: Backend, store: Store) -> None:
        outcomes: list[str] = []

        async def take(holder: Store, name: str) -> None:
            try:
                await holder.lease(["shop"], name)
                outcomes.append("taken")
            except Locked:
                outcomes.append("locked")

        async with anyio.create_task_group() as both:
            both.start_soon(take, store, "anna")
            both.start_soon(take, backend.open(), "bob")
        assert sorted(outcomes) == ["locked", "taken"]

    async def test_all_scopes_are_taken_or_none(self, backend: Backend, store: Store) -> None:
        await store.lease(["shop"], "anna")
        with pytest.raises(Locked):
            await backend.open().lease(["blog", "shop", "wiki"], "ben")
        assert (await store.lease(["wiki", "blog", "blog"], "anna")).scopes == ("blog", "wiki")

    async def test_epochs_only_grow(self, backend: Backend, store: Store) -> None:
        first = await store.lease(["shop"], "anna")
        await store.release(first)
        second = await backend.open().lease(["shop"], "ben")
        assert second.epochs["shop"] > first.epochs["shop"]

    async def test_waiting_takes_the_scope_once_it_is_free(
        self, backend: Backend, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        held = await store.lease(["shop"], "anna")
        sleep = backend.clock.sleep

        async def release_after_five_seconds(seconds: float) -> None:
            await sleep(seconds)
            if backend.clock.elapsed_s > 5:
                await store.release(held)

        monkeypatch.setattr(backend.clock, "sleep", release_after_five_seconds)
        lease = await backend.open().lease(["shop"], "ben", timeout_s=20)
        assert lease.holder == "ben"
        assert 5 < backend.clock.elapsed_s < 10

    async def test_waiting_ends_after_the_timeout(self, backend: Backend, store: Store) -> None:
        await store.lease(["shop"], "anna")
        with pytest.raises(Locked):
            await backend.open().lease(["shop"], "ben", timeout_s=3)
        assert backend.clock.elapsed_s == pytest.approx(3)

    async def test_a_released_lease_neither_checks_nor_writes(self, store: Store) -> None:
        lease = await store.lease(["shop"], "me")
        await store.check(lease)
        await store.release(lease)
        await store.release(lease)
        await _no_longer_ours(
            lambda: store.check(lease),
            lambda: renew(store, lease),
            lambda: store.commit(lease, [entry(Event.DONE)]),
        )

    async def test_a_lease_is_lost_scope_by_scope(self, store: Store) -> None:
        lease = await store.lease(["blog", "shop"], "me")
        await store.check(lease)
        await store.release(lease.of("blog"))
        for lost in (lease, lease.of("blog")):
            with pytest.raises(StoreError, match="the lease of `blog` is no longer ours"):
                await store.check(lost)
        await store.commit(lease.of("shop"), [entry(Event.INTENT)])

    async def test_what_a_dead_process_held_is_taken_at_a_higher_epoch(
        self, backend: Backend, store: Store
    ) -> None:
        stale = await store.lease(["shop"], "anna")
        await store.commit(stale, [entry(Event.INTENT)], [record()])
        before = await backend.open().load()
        await backend.cut(store)
        backend.clock.elapsed_s += backend.lease_s or 0
        heir = backend.open()
        lease = await heir.lease(["shop"], "ben")
        assert lease.epochs["shop"] > stale.epochs["shop"]
        assert await heir.load() == before

    async def test_a_living_holder_is_named_and_keeps_its_scope(self, backend: Backend, store: Store) -> None:
        held = await store.lease(["shop"], "anna")
        backend.clock.elapsed_s += 30
        with pytest.raises(Locked, match="has been locked by anna for 30 s"):
            await backend_of(backend.open()).unlock("shop", force=False)
        await store.commit(held, [entry(Event.DONE)])

    async def test_a_scope_taken_by_force_is_closed_to_its_holder(
        self, backend: Backend, store: Store
    ) -> None:
        held, unchecked = await store.lease(["blog", "shop"], "anna"), await store.lease(["wiki"], "anna")
        await store.check(held)
        person = backend_of(backend.open())
        for scope in ("shop", "wiki"):
            unlocked = await person.unlock(scope, force=True, by="ben")
        assert (
            unlocked == "lock taken from anna, which can no longer write; stop that process before you apply"
        )
        shop, blog = held.of("shop"), held.of("blog")
        await _no_longer_ours(lambda: store.check(shop), lambda: store.commit(shop, [entry(Event.INTENT)]))
        await backend.open().lease(["wiki"], "ben")
        await _no_longer_ours(lambda: store.commit(unchecked, [entry(Event.INTENT)]), scope="wiki")
        await store.check(blog)
        await store.commit(blog, [entry(Event.INTENT)])
        other = backend.open()
        lease = await other.lease(["shop"], "ben")
        assert lease.epochs["shop"] > shop.epochs["shop"] + 1
        await store.release(shop)
        await other.check(lease)
        with pytest.raises(Locked, match="ben"):
            await backend_of(backend.open()).unlock("shop", force=False)
        (entered,) = [each for scope, each in await other.journal() if scope == "shop"]
        assert {**entered.data, "since": ""} == {
            "unlock": "shop", "holder": "anna", "since": "", "alive": True, "by": "ben"
        }  # fmt: skip

    async def test_a_scope_that_nobody_ever_took_cannot_be_unlocked(self, store: Store) -> None:
        for other in ("blog", "wiki"):
            with pytest.raises(StoreError, match="no run has ever locked `shop`"):
                await backend_of(store).unlock("shop", force=True)
            await store.lease([other], "anna")

    async def test_the_scope_of_a_dead_holder_is_freed_without_force(
        self, backend: Backend, store: Store
    ) -> None:
        await store.lease(["shop"], "anna")
        await backend.cut(store)
        watcher = backend.open()
        await watcher.holders(["shop"])
        backend.clock.elapsed_s += 2 * (backend.lease_s or 0)
        unlocked = await backend_of(watcher).unlock("shop", force=False, by="ben")
        assert unlocked == "free: no process holds it"
        await backend.open().lease(["shop"], "carl")

    async def test_a_lease_lasts_as_long_as_it_says(self, backend: Backend, store: Store) -> None:
        lease = await store.lease(["shop"], "anna")
        if backend.lease_s is None:
            backend.clock.elapsed_s += 1_000_000
            await renew(store, lease)
            await store.check(lease, for_s=1_000_000)
            return
        await store.check(lease, for_s=backend.lease_s - 1)
        with pytest.raises(StoreError, match="the lease of `shop` ends before"):
            await store.check(lease, for_s=backend.lease_s)
        backend.clock.elapsed_s += backend.lease_s - 1
        await renew(store, lease)
        await store.check(lease, for_s=backend.lease_s - 1)
        backend.clock.elapsed_s += backend.lease_s
        uses = (
            lambda: store.check(lease),
            lambda: renew(store, lease),
            lambda: store.commit(lease, [entry(Event.INTENT)]),
        )
        await _no_longer_ours(*uses)
        await backend.open().lease(["shop"], "ben")
        await _no_longer_ours(*uses)
        assert list(await store.journal()) == []
        await store.release(lease)
        with pytest.raises(Locked):
            await backend.open().lease(["shop"], "carl")


async def _no_longer_ours(*attempts: Callable[[], Awaitable[object]], scope: str = "shop") -> None:
    for attempt in attempts:
        with pytest.raises(StoreError, match=f"the lease of `{scope}` is no longer ours"):
            await attempt()
