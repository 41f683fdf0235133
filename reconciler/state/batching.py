"""Group commit: what several tasks ask for at the same moment is done by one piece of work."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

import anyio
from anyio import to_thread

T = TypeVar("T")
Serve = Callable[[Sequence[T]], Awaitable[None]]


class Batching(Generic[T]):
    """`serve` gets all requests that wait when it begins, and has served each of them when it returns.

    `turn`: a lock that other work takes too, where `serve` must not run beside that.
    """

    def __init__(self, serve: Serve[T], turn: anyio.Lock | None = None) -> None:
        self._serve = serve
        self._waiting: list[T] = []
        self._turn = turn or anyio.Lock()

    async def ask(self, request: T) -> None:
        """Return once a `serve` that began after this call has served `request`. Cannot be cancelled."""
        with anyio.CancelScope(shield=True):
            self._waiting.append(request)
            async with self._turn:
                # Whoever comes first asks for all who wait; the others find themselves served.
                if request in self._waiting:
                    batch, self._waiting = self._waiting, []
                    await self._serve(batch)


def in_thread(work: Callable[[Sequence[T]], None]) -> Serve[T]:
    """`work`, which blocks, in a worker thread."""

    async def serve(batch: Sequence[T]) -> None:
        await to_thread.run_sync(work, batch)

    return serve
