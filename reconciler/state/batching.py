"""Group commit: what several tasks ask for at the same moment is done by one piece of work."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

import anyio
from anyio import to_thread
from anyio.lowlevel import checkpoint

T = TypeVar("T")
Serve = Callable[[Sequence[T]], Awaitable[None]]


class _Batch(Generic[T]):
    """What is served together. `led`: one who asks waits for the turn, or serves; `told`: he has ended."""

    def __init__(self) -> None:
        self.requests: list[T] = []
        self.led = self.begun = False
        self.told = anyio.Event()


class Batching(Generic[T]):
    """`serve` gets all requests that wait when it begins, and has served each of them when it returns.

    `turn`: a lock that other work takes too, where `serve` must not run beside that.
    """

    def __init__(self, serve: Serve[T], turn: anyio.Lock | None = None) -> None:
        self._serve = serve
        self._next: _Batch[T] = _Batch()
        self._turn = turn or anyio.Lock()

    async def ask(self, request: T) -> None:
        """Return once a `serve` that began after this call has served `request`. Cannot be cancelled."""
        with anyio.CancelScope(shield=True):
            batch = self._next
            batch.requests.append(request)
            # Whoever comes first asks for all. Nobody else stands in line, so that all wake at once.
            while not batch.begun:
                await (batch.told.wait() if batch.led else self._lead(batch))

    async def _lead(self, batch: _Batch[T]) -> None:
        batch.led, batch.told = True, anyio.Event()
        try:
            async with self._turn:
                self._next, batch.begun = _Batch(), True
                await self._serve(batch.requests)
        finally:
            batch.led = False  # if it has not begun, this task dies: another one leads
            batch.told.set()


def in_thread(work: Callable[[Sequence[T]], None], *, is_quick: bool = False) -> Serve[T]:
    """`work`, which blocks, in a worker thread; `is_quick`: here."""

    async def serve(batch: Sequence[T]) -> None:
        if is_quick:
            await checkpoint()
            work(batch)
        else:
            await to_thread.run_sync(work, batch)

    return serve
