"""Calls that wait at the same moment, served by one piece of work."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import anyio
from anyio import to_thread

T = TypeVar("T")


class Together(Generic[T]):
    """`work` gets all requests that wait when it begins; it blocks, in a worker thread."""

    def __init__(self, work: Callable[[Sequence[T]], None]) -> None:
        self._work = work
        self._waiting: list[T] = []
        self._busy = anyio.Lock()

    async def ask(self, request: T) -> None:
        """Return once a piece of work that began after this call has served `request`."""
        with anyio.CancelScope(shield=True):
            self._waiting.append(request)
            async with self._busy:
                # Whoever comes first works for all who wait; the others find themselves served.
                if request in self._waiting:
                    batch, self._waiting = self._waiting, []
                    await to_thread.run_sync(self._work, batch)
