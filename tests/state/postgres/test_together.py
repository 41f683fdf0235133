"""What several tasks ask PostgreSQL for at the same moment costs one round trip."""

from typing import Any

import anyio
import pytest

from reconciler.core.errors import StoreError
from reconciler.state.places.postgres import connections
from tests.state.postgres.conftest import Handles

pytestmark = pytest.mark.anyio


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What each message does."""
    messages: list[str] = []
    send = connections._send

    def counting(connection: Any, statements: Any, now: str) -> Any:
        messages.append(statements[min(2, len(statements) - 1)][0].split()[0])  # after the limits
        return send(connection, statements, now)

    monkeypatch.setattr(connections, "_send", counting)
    return messages


async def test_checks_of_one_moment_are_one_question(handles: Handles, asked: list[str]) -> None:
    store = handles.open()
    await store.create()
    lease = await store.lease(["blog", "shop"], "anna")
    asked.clear()
    async with anyio.create_task_group() as tasks:
        for _ in range(50):
            tasks.start_soon(store.check, lease, 5)
    assert len(asked) <= 2  # who comes first asks alone


async def test_checks_of_many_scopes_at_one_moment_are_one_question(
    handles: Handles, asked: list[str]
) -> None:
    store = handles.open()
    await store.create()
    scopes = [f"app{number}" for number in range(50)]
    lease = await store.lease(scopes, "anna")
    asked.clear()
    async with anyio.create_task_group() as tasks:
        for scope in scopes:
            tasks.start_soon(store.check, lease.of(scope), 5)
    assert len(asked) <= 2


async def test_checks_of_one_moment_share_what_is_renewed(handles: Handles, asked: list[str]) -> None:
    store = handles.open()
    await store.create()
    lease = await store.lease(["blog", "shop"], "anna")
    handles.clock.elapsed_s += handles.lease_s - 10
    asked.clear()
    async with anyio.create_task_group() as tasks:
        for scope in ("blog", "shop") * 10:
            tasks.start_soon(store.check, lease.of(scope), 30)
    assert asked.count("UPDATE") == 1


async def test_each_of_them_hears_that_the_lease_is_lost(handles: Handles) -> None:
    store = handles.open()
    await store.create()
    lease = await store.lease(["blog", "shop"], "anna")
    other = await store.lease(["wiki"], "anna")
    await handles.open().unlock("shop", force=True)
    told = []

    async def check(each: Any) -> None:
        try:
            await store.check(each)
        except StoreError as failure:
            told.append(failure.message)

    async with anyio.create_task_group() as tasks:
        for each in (lease, other, lease, other, lease):
            tasks.start_soon(check, each)
    assert told == ["the lease of `shop` is no longer ours"] * 3


async def test_nobody_takes_a_question_that_was_not_asked_for_a_yes(
    handles: Handles, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = handles.open()
    await store.create()
    lease = await store.lease(["shop"], "anna")
    told = []

    def fail(*asked: Any) -> Any:
        raise AssertionError("a mistake of ours")

    async def check() -> None:
        try:
            await store.check(lease)
        except (StoreError, AssertionError) as failure:
            told.append(str(failure))

    monkeypatch.setattr(connections, "_send", fail)
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(check)
    assert len(told) == 5
