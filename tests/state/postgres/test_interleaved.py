"""Two processes in the midst of what they do: one stands still before a message, and the other goes on."""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from reconciler.core.errors import Locked, StoreError
from reconciler.state.places.postgres.bucket import TableBucket
from reconciler.state.places.postgres.store import PostgresStore
from reconciler.state.store import Event
from tests.state.postgres.conftest import Handles
from tests.state.worlds import entry, record

pytestmark = pytest.mark.slow


@asynccontextmanager
async def standing_still(
    store: PostgresStore, before: str, work: Callable[[], Coroutine[Any, Any, object]]
) -> AsyncIterator[None]:
    """The block runs while `work` stands before it sends a statement that begins so; then it goes on."""
    reached, go_on, wrote = anyio.Event(), anyio.Event(), TableBucket._wrote

    def stand_still(statements: Any) -> None:
        if statements[0][0].lstrip().startswith(before) and not reached.is_set():
            anyio.from_thread.run_sync(reached.set)
            anyio.from_thread.run(go_on.wait)

    def standing(tag: str, statements: Any) -> str:
        stand_still(statements)
        return wrote(store._table, tag, statements)

    store._table._wrote = standing  # type: ignore[method-assign]
    async with anyio.create_task_group() as group:
        group.start_soon(work)
        await reached.wait()
        try:
            yield
        finally:
            go_on.set()


async def test_a_commit_whose_lease_ended_and_was_taken_meanwhile_stores_nothing(handles: Handles) -> None:
    store, other = handles.open(), handles.open()
    await store.create()
    lease = await store.lease(["shop"], "me")

    async def commit() -> None:
        with pytest.raises(StoreError, match="no longer ours"):
            await store.commit(lease, [entry(Event.INTENT)], [record()])

    async with standing_still(store, "UPDATE", commit):
        handles.clock.elapsed_s += handles.lease_s
        await other.lease(["shop"], "ben")
    assert (await other.load()).open_intents == ()


async def test_a_lease_that_ended_within_a_commit_is_taken_after_it(handles: Handles) -> None:
    """Who takes it sees what was stored."""
    store, other = handles.open(), handles.open()
    await store.create()
    lease = await store.lease(["shop"], "me")
    async with standing_still(store, "UPDATE", lambda: store.commit(lease, [entry(Event.INTENT)])):
        handles.clock.elapsed_s += handles.lease_s
    assert (await other.lease(["shop"], "ben")).epochs == {"shop": 2}
    assert len((await other.load()).open_intents) == 1


async def test_of_two_that_see_a_free_scope_one_gets_it(handles: Handles) -> None:
    store, other = handles.open(), handles.open()
    await store.create()
    await store.release(await store.lease(["shop"], "carl"))

    async def take() -> None:
        with pytest.raises(Locked, match="locked by ben"):
            await store.lease(["shop"], "me")

    async with standing_still(store, "UPDATE", take):
        assert (await other.lease(["shop"], "ben")).epochs == {"shop": 2}
