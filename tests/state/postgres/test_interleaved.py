"""Two processes in the midst of their transactions: one stands still, and the other waits for it."""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from reconciler.core.errors import Locked, StoreError
from reconciler.state.postgres.line import Row, Statement
from reconciler.state.postgres.store import PostgresStore
from reconciler.state.store import Event, Lease
from tests.providers.postgres import Postgres
from tests.state.postgres.conftest import Handles
from tests.state.worlds import entry, record

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

_WAITS = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


@asynccontextmanager
async def standing_still(
    store: PostgresStore, before: str, work: Callable[[], Coroutine[Any, Any, object]]
) -> AsyncIterator[None]:
    """The block runs while `work` stands before the message that begins so; then it goes on to its end."""
    reached, go_on, ask = anyio.Event(), anyio.Event(), store._line.ask

    async def stand_still(*statements):  # type: ignore[no-untyped-def]
        if statements[0][0].startswith(before):
            reached.set()
            await go_on.wait()
        return await ask(*statements)

    store._line.ask = stand_still  # type: ignore[method-assign]
    async with anyio.create_task_group() as group:
        group.start_soon(work)
        await reached.wait()
        try:
            yield
        finally:
            go_on.set()
    store._line.ask = ask  # type: ignore[method-assign]


async def test_a_lease_that_ended_within_a_commit_is_taken_after_it(
    handles: Handles, database: Postgres
) -> None:
    store, other = handles.open(), handles.open()
    await store.create()
    lease = await store.lease(["shop"], "me")
    taken: list[Lease] = []

    async def take() -> None:
        taken.append(await other.lease(["shop"], "ben"))

    async with anyio.create_task_group() as group:
        committing = lambda: store.commit(lease, [entry(Event.INTENT)], [record()])  # noqa: E731
        async with standing_still(store, "INSERT", committing):
            handles.clock.elapsed_s += handles.lease_s
            group.start_soon(take)
            while not taken and database.rows(_WAITS) == [(0,)]:
                await anyio.lowlevel.checkpoint()
            assert not taken
    assert taken
    assert len((await other.load()).open_intents) == 1


async def test_of_two_that_see_a_free_scope_one_gets_it(handles: Handles, database: Postgres) -> None:
    store, other = handles.open(), handles.open()
    await store.create()
    await store.release(await store.lease(["shop"], "carl"))  # its row is there
    told: list[str] = []

    async def take() -> None:
        try:
            await other.lease(["shop"], "ben")
            told.append("taken")
        except Locked as locked:
            told.append(locked.holder)

    async with (
        anyio.create_task_group() as group,
        standing_still(store, "UPDATE", lambda: store.lease(["shop"], "me")),
    ):
        group.start_soon(take)
        while not told and database.rows(_WAITS) == [(0,)]:
            await anyio.lowlevel.checkpoint()
    assert told == ["me"]


async def test_a_commit_under_a_lease_that_was_taken_away_stores_nothing(handles: Handles) -> None:
    store, other = handles.open(), handles.open()
    await store.create()
    lease = await store.lease(["shop"], "me")
    await other.unlock("shop", force=True, by="ben")
    await other.lease(["shop"], "ben")
    with pytest.raises(StoreError, match="no longer ours"):
        await store.commit(lease, [entry(Event.INTENT)])
    assert (await other.load()).open_intents == ()


async def test_a_lease_that_ends_before_the_answer_comes_does_not_check(
    handles: Handles, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = handles.open(), handles.open()
    await store.create()
    lease = await store.lease(["shop"], "me")
    ask = store._line.ask

    async def wake_late(*statements: Statement) -> list[list[Row]]:
        """The process is stopped when its answer is there, and another one takes the lease."""
        monkeypatch.undo()
        found = await ask(*statements)
        handles.clock.elapsed_s += handles.lease_s
        await other.lease(["shop"], "ben")
        return found

    monkeypatch.setattr(store._line, "ask", wake_late)
    with pytest.raises(StoreError, match="no longer ours"):
        await store.check(lease, for_s=5)


async def test_a_lease_of_which_every_answer_comes_too_late_does_not_check(
    handles: Handles, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = handles.open()
    await store.create()
    lease = await store.lease(["shop"], "me")
    ask = store._line.ask

    async def ask_slowly(*statements: Statement) -> list[list[Row]]:
        found = await ask(*statements)
        handles.clock.elapsed_s += handles.lease_s / 3
        return found

    monkeypatch.setattr(store._line, "ask", ask_slowly)
    with pytest.raises(StoreError, match="ends before a call"):
        await store.check(lease, for_s=handles.lease_s * 3 / 4)
