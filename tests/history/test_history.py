"""Which runs and decisions are found, by address, by time and by the beginning of an id."""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import pytest
from msgspec.structs import replace

from reconciler.core.errors import ReconcilerError
from reconciler.core.model import Address
from reconciler.core.steps import Move
from reconciler.execution.parts import moved_entry
from reconciler.project.history import find_history, find_run
from reconciler.state.places.memory import MemoryState, MemoryStore
from reconciler.state.store import Event, JournalEntry, Run, Store
from tests.state.worlds import DATA, NOON, SimulatedClock, entry

LOGS = Address("Volume", "logs", "shop")


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    made = MemoryStore(MemoryState(SimulatedClock()))
    await made.create()
    yield made
    await made.close()


async def journaled(store: Store, *entries: JournalEntry, scope: str = "shop") -> None:
    lease = await store.lease([scope], "ana@host")
    await store.commit(lease, entries)
    await store.release(lease)


def run(id: str, address: Address = DATA, *, finished: bool = True, **data: object) -> Sequence[JournalEntry]:
    """A run that makes one call."""
    entries = [
        JournalEntry(id, Event.RUN_STARTED, NOON, data={**Run(f"plan-{id}").to_json(), **data}),
        replace(entry(Event.INTENT, run=id, method="POST", path="/v1"), address=address),
        replace(entry(Event.DONE, run=id), address=address),
        JournalEntry(id, Event.RUN_FINISHED, NOON),
    ]
    return entries if finished else entries[:-1]


async def ids(store: Store, address: Address | None) -> list[str]:
    return [each.id for each in (await find_history(store, address, None)).history.runs]


async def test_an_address_finds_the_runs_that_were_about_it(store: Store) -> None:
    second = DATA._replace(ordinal=1)
    await journaled(
        store, *run("r1"), *run("r2", LOGS), *run("r3", second), *run("r4", LOGS, adopted=[str(DATA)])
    )
    assert await ids(store, None) == ["r1", "r2", "r3", "r4"]
    assert await ids(store, DATA) == ["r1", "r3", "r4"]  # all of a `count`
    assert await ids(store, second) == ["r3"]
    decided = JournalEntry("d1", Event.DECIDED, NOON, DATA, data={"forget": "vol_1"})
    await journaled(store, decided)
    assert [each.run for each in (await find_history(store, DATA, None)).history.decisions] == ["d1"]
    assert (await find_history(store, LOGS, None)).history.decisions == []


async def test_what_an_address_was_called_before_belongs_to_it(store: Store) -> None:
    middle = LOGS._replace(name="middle")
    await journaled(store, *run("r1"), moved_entry(Move(DATA, middle, "vol_1", 1), "d1", NOON))
    await journaled(store, moved_entry(Move(middle, LOGS, "vol_1", 1), "d2", NOON), *run("r2", LOGS))
    assert await ids(store, LOGS) == ["r1", "r2"]
    assert await ids(store, DATA) == ["r1"]


async def test_an_address_that_nothing_was_done_to_is_an_error(store: Store) -> None:
    await journaled(store, *run("r1"))
    with pytest.raises(ReconcilerError, match="nothing was ever done to `Volume/shop/dta`") as refused:
        await find_history(store, DATA._replace(name="dta"), None)
    assert refused.value.help == "did you mean `Volume/shop/data`?"
    since = NOON + timedelta(days=1)
    assert (await find_history(store, DATA, since)).history.runs == []  # not since then


async def test_a_run_is_found_by_the_beginning_of_its_id(store: Store) -> None:
    await journaled(store, *run("abc1"), *run("abd2"))
    assert (await find_run(store, "abc"))[0].id == "abc1"
    with pytest.raises(ReconcilerError, match="2 runs have an id that begins with `ab`: abc1, abd2"):
        await find_run(store, "ab")
    with pytest.raises(ReconcilerError, match="no run has an id that begins with `x`"):
        await find_run(store, "x")
    await journaled(store, JournalEntry("dec1", Event.DECIDED, NOON, DATA, data={"forget": "vol_1"}))
    with pytest.raises(ReconcilerError, match="`dec` is a decision"):
        await find_run(store, "dec")


async def test_a_run_is_at_work_only_while_it_is_the_newest_of_a_scope_that_is_held(store: Store) -> None:
    await journaled(store, *run("r1", finished=False), *run("r2", finished=False))
    assert (await find_history(store, None, None)).running == frozenset()
    await store.lease(["shop"], "ana@host")
    assert (await find_history(store, None, None)).running == {"r2"}
    assert (await find_run(store, "r1"))[2] is False
    assert (await find_run(store, "r2"))[2] is True
