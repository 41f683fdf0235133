"""What every backend must do whose states can be carried elsewhere: a suite beside `contract.StoreContract`.

Subclass `MovableContract` and give it fixtures `backend` and `elsewhere`: two places without a state.
"""

import dataclasses
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.core.errors import StateMoved, StoreError
from reconciler.core.model import Address
from reconciler.state import backend_of
from reconciler.state.contents import StateDump, same, verify
from reconciler.state.places.memory import MemoryState, MemoryStore
from reconciler.state.store import WHOLE_STATE, Event, JournalEntry, Run, State, Store
from tests.state.contract import Backend
from tests.state.worlds import DATA, NOON, entry, record, renew

HERE, THERE = "sqlite:here.db", "postgresql://db/there"
LOGS, POSTS = Address("Volume", "logs", "shop"), Address("Volume", "posts", "blog")


@dataclasses.dataclass(frozen=True)
class Filled:
    """A state with something of each kind in it, and the handle that made it."""

    store: Store
    state: State
    key: bytes


async def filled(store: Store) -> Filled:
    """Two scopes with records, an open intent, an unclaimed object, a plan and a fact."""
    await store.create()
    whole = await store.lease([WHOLE_STATE], "me")
    facts = {"platform": "https://platform"}
    await store.commit(whole, [JournalEntry("", Event.DECIDED, NOON, data=facts)])
    await store.release(whole)
    lease = await store.lease(["blog", "shop"], "me")
    shop, blog = lease.of("shop"), lease.of("blog")
    started = JournalEntry("r1", Event.RUN_STARTED, NOON, data=Run("plan-1").to_json())
    (data,) = await store.commit(shop, [started, entry(Event.INTENT), entry(Event.DONE)], [record()])
    await store.commit(shop, [], [replace(record(LOGS), source="\ud800 \0")])
    await store.commit(shop, [entry(Event.INTENT, "s2", scope="shop")], [data])
    odd = {"unclaimed": "vol_9", "scope": "blog", "odd": "\ud800 \0 \N{SNOWMAN}"}
    await store.commit(blog, [JournalEntry("r2", Event.DECIDED, NOON, data=odd)])
    await store.commit(blog, [], [record(POSTS, scope="blog")])
    await store.release(lease)
    return Filled(store, await store.load(), await store.fingerprint_key())


class MovableContract:
    @pytest.fixture
    async def here(self, backend: Backend) -> Filled:
        return await filled(backend.open())

    async def test_a_state_comes_back_as_it_was_from_another_backend(
        self, backend: Backend, elsewhere: Backend, here: Filled
    ) -> None:
        memory = MemoryStore(MemoryState(backend.clock))
        await memory.import_(await backend_of(here.store).export())
        assert await memory.load() == here.state
        there = elsewhere.open()
        await backend_of(there).import_(await memory.export())
        for opened in (there, elsewhere.open()):
            state = await opened.load()
            assert state == here.state
            assert state.heads == here.state.heads
            assert {key: serial for key, serial in state.serials.items() if serial} == {
                key: serial for key, serial in here.state.serials.items() if serial
            }
            assert await opened.fingerprint_key() == here.key
        before, after = await backend_of(here.store).export(), await backend_of(there).export()
        assert same(before, after)
        assert before.hashes == here.state.heads
        assert set(before.rows) == set(after.rows)  # each names its scope and its place there
        assert {scope: head.epoch for scope, head in before.heads.items()} == {
            scope: head.epoch for scope, head in after.heads.items()
        }

    async def test_it_goes_on_from_there_with_higher_epochs_and_serials(
        self, elsewhere: Backend, here: Filled
    ) -> None:
        contents = await backend_of(here.store).export()
        there = elsewhere.open()
        await backend_of(there).import_(contents)
        lease = await there.lease(["shop"], "ben")
        assert lease.epochs["shop"] > contents.head("shop").epoch
        known = here.state.records[DATA]
        (stored,) = await there.commit(lease, [entry(Event.DONE, "s2")], [known])
        assert stored.serial > max(body.serial for body in contents.records.values())
        verify(await backend_of(there).export())

    async def test_what_was_exported_is_whole(self, here: Filled) -> None:
        verify(await backend_of(here.store).export())
        state = here.state
        assert len(state.open_intents) == len(state.unclaimed) == 1

    async def test_nothing_comes_from_where_no_state_is(self, backend: Backend) -> None:
        with pytest.raises(StoreError, match="there is no state"):
            await backend_of(backend.open()).export()

    async def test_a_state_is_not_replaced(self, elsewhere: Backend, here: Filled) -> None:
        contents = await backend_of(here.store).export()
        there = elsewhere.open()
        await backend_of(there).import_(contents)
        other = dataclasses.replace(contents, lineage="another")
        for each in (contents, dataclasses.replace(contents, moved_to=HERE)):
            with pytest.raises(StoreError, match="there is a state"):
                await backend_of(elsewhere.open()).import_(each)
        with pytest.raises(StoreError):
            await backend_of(elsewhere.open()).import_(other)
        assert await elsewhere.open().load() == here.state

    @pytest.mark.parametrize("broken", ["row", "order", "head", "record", "end", "serial"])
    async def test_contents_that_were_changed_are_refused(
        self, elsewhere: Backend, here: Filled, broken: str
    ) -> None:
        contents = await backend_of(here.store).export()
        there = elsewhere.open()
        with pytest.raises(StoreError, match="not what was written"):
            await backend_of(there).import_(_changed(contents, broken))
        assert (await elsewhere.open().load()).lineage == ""

    async def test_a_retired_state_takes_nothing_and_says_where_it_went(
        self, backend: Backend, here: Filled
    ) -> None:
        store = here.store
        other = backend.open()
        lease = await store.lease(["shop"], "me")
        await other.load()
        await backend_of(store).retire(THERE, await backend_of(store).export())
        attempts: list[Any] = [
            lambda: store.commit(lease, [entry(Event.DONE, "s2")]),
            lambda: store.check(lease),
            lambda: renew(store, lease),
        ]
        for each in (store, other, backend.open()):
            attempts += [
                each.load,
                each.create,
                each.journal,
                lambda each=each: each.lease(["new"], "ben"),
                lambda each=each: each.lease(["shop"], "ben"),
                lambda each=each: each.holders(["shop"]),
            ]
        for attempt in attempts:
            with pytest.raises(StoreError) as refused:
                await attempt()
            if not isinstance(refused.value, StateMoved):
                assert "no longer ours" in refused.value.message
                continue
            (problem,) = refused.value.diagnostics
            assert problem.code == "state-moved"
            assert THERE in problem.message
        await store.release(lease)
        assert (await backend_of(other).export()).moved_to == THERE

    async def test_a_state_that_changed_since_it_was_copied_does_not_retire(
        self, backend: Backend, here: Filled
    ) -> None:
        contents = await backend_of(here.store).export()
        other = backend.open()
        for scope in ("shop", "brand-new"):
            lease = await other.lease([scope], "ben")
            await other.commit(lease, [entry(Event.INTENT, f"late-{scope}")])
            await other.release(lease)
            with pytest.raises(StoreError, match="has changed since it was copied"):
                await backend_of(here.store).retire(THERE, contents)
            contents = dataclasses.replace(await backend_of(here.store).export())
        await here.store.load()

    async def test_retiring_again_to_the_same_place_changes_nothing(
        self, backend: Backend, here: Filled
    ) -> None:
        contents = await backend_of(here.store).export()
        await backend_of(here.store).retire(THERE, contents)
        await backend_of(backend.open()).retire(THERE, contents)
        with pytest.raises(StoreError, match="has changed"):
            await backend_of(backend.open()).retire("s3://other", contents)
        assert (await backend_of(backend.open()).export()).moved_to == THERE

    async def test_a_copy_is_not_the_state_until_it_is_told(self, elsewhere: Backend, here: Filled) -> None:
        contents = await backend_of(here.store).export()
        copy = dataclasses.replace(contents, moved_to=HERE)
        there = elsewhere.open()
        await backend_of(there).import_(copy)
        with pytest.raises(StateMoved):
            await elsewhere.open().load()
        with pytest.raises(StateMoved):
            await elsewhere.open().lease(["shop"], "ben")
        await backend_of(elsewhere.open()).revive()
        assert await elsewhere.open().load() == here.state
        await elsewhere.open().lease(["shop"], "ben")

    async def test_a_copy_that_was_left_half_way_is_replaced_by_a_newer_one(
        self, elsewhere: Backend, here: Filled
    ) -> None:
        there = elsewhere.open()
        await backend_of(there).import_(
            dataclasses.replace(await backend_of(here.store).export(), moved_to=HERE)
        )
        lease = await here.store.lease(["shop"], "me")
        await here.store.commit(lease, [entry(Event.DONE, "s2")], remove=[DATA])
        newer = await backend_of(here.store).export()
        again = elsewhere.open()
        await backend_of(again).probe()  # as every move does before it copies
        await backend_of(again).import_(dataclasses.replace(newer, moved_to=HERE))
        await backend_of(again).revive()
        assert await elsewhere.open().load() == await here.store.load()
        assert same(await backend_of(again).export(), newer)

    async def test_a_state_moves_away_and_back(
        self, backend: Backend, elsewhere: Backend, here: Filled
    ) -> None:
        contents = await backend_of(here.store).export()
        await backend_of(elsewhere.open()).import_(contents)
        await backend_of(here.store).retire(THERE, contents)
        there = elsewhere.open()
        lease = await there.lease(["shop"], "ben")
        await there.commit(lease, [entry(Event.DONE, "s2")])
        await there.release(lease)
        newer = await backend_of(there).export()
        await backend_of(backend.open()).import_(newer)
        assert await backend.open().load() == await there.load()


def _changed(contents: StateDump, what: str) -> StateDump:
    rows, heads = list(contents.rows), dict(contents.heads)
    if what == "row":
        rows[2] = replace(rows[2], columns=(*rows[2].columns[:-1], '{"ours":1}'))
    elif what == "order":
        rows.pop(2)
    elif what == "head":
        heads["shop"] = replace(heads["shop"], hash="0" * 64)
    elif what == "end":
        rows.pop()
    elif what == "serial":
        heads["shop"] = replace(heads["shop"], serial=0)
    else:
        body = contents.records[DATA]
        return dataclasses.replace(contents, records={DATA: replace(body, text=body.text[:-1])})
    return dataclasses.replace(contents, rows=tuple(rows), heads=heads)
