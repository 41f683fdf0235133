import asyncio
from collections.abc import Sequence

import anyio

from reconciler.state.log.open_state import Batching


async def test_what_is_asked_for_while_others_are_served_is_served_at_once() -> None:
    batches: list[Sequence[str]] = []
    began, may_end = anyio.Event(), anyio.Event()

    async def serve(batch: Sequence[str]) -> None:
        batches.append(batch)
        began.set()
        await may_end.wait()

    batching = Batching(serve)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(batching.ask, "first")
        await began.wait()
        for late in ("second", "third", "fourth"):
            tasks.start_soon(batching.ask, late)
        await anyio.wait_all_tasks_blocked()
        may_end.set()
    assert batches == [["first"], ["second", "third", "fourth"]]


async def test_the_next_ones_are_served_before_those_before_them_go_on() -> None:
    """Whoever was served holds up nobody: not even for as long as it takes to wake."""
    happened: list[object] = []
    may_end = anyio.Semaphore(0)

    async def serve(batch: Sequence[str]) -> None:
        happened.append(batch)
        await may_end.acquire()

    async def ask(request: str) -> None:
        await batching.ask(request)
        happened.append(request)

    batching = Batching(serve)
    async with anyio.create_task_group() as tasks:
        for each in ("a", "bc", "de"):
            for request in each:
                tasks.start_soon(ask, request)
            await anyio.wait_all_tasks_blocked()
            if each != "a":
                may_end.release()
                await anyio.wait_all_tasks_blocked()
        may_end.release()
    assert happened == [["a"], "a", ["b", "c"], "b", ["d", "e"], "c", "d", "e"]


async def test_a_request_is_served_although_the_task_of_the_first_one_died() -> None:
    """Its loop ends tasks without asking `anyio`, at the end of a process for example."""
    batches: list[Sequence[str]] = []
    may_end = anyio.Event()

    async def serve(batch: Sequence[str]) -> None:
        batches.append(batch)
        await may_end.wait()

    batching = Batching(serve)
    before = asyncio.create_task(batching.ask("before"))
    await anyio.wait_all_tasks_blocked()
    dies, *lives = [asyncio.create_task(batching.ask(each)) for each in ("dies", "one", "another")]
    await anyio.wait_all_tasks_blocked()
    dies.cancel()
    await asyncio.wait([dies])
    may_end.set()
    await asyncio.wait([before, *lives])
    assert batches == [["before"], ["dies", "one", "another"]]


async def test_a_request_is_served_although_its_task_is_cancelled() -> None:
    batches: list[Sequence[str]] = []

    async def serve(batch: Sequence[str]) -> None:
        await anyio.lowlevel.checkpoint()
        batches.append(batch)

    with anyio.CancelScope() as scope:
        scope.cancel()
        await Batching(serve).ask("one")
    assert batches == [["one"]]
