"""Simulated time: an event loop that never waits, and jumps to its next timer when nothing is ready."""

import asyncio
import itertools
import selectors
from collections.abc import Coroutine, Mapping
from contextvars import Context
from datetime import UTC, datetime, timedelta
from typing import Any

MOST_TURNS = 100_000  # of the loop without any time passing; some dozens are usual
TICK_S = 1e-6  # the shortest sleep: less could be lost in the rounding of a float
START = datetime(2026, 1, 1, tzinfo=UTC)


class Standstill(Exception):
    """Every task waits for another one and no timer is set; or the tasks run on without time passing."""


class _NoFiles(selectors.BaseSelector):
    """A selector without files: waiting only advances the time."""

    def __init__(self) -> None:
        self.elapsed_s = 0.0
        self._turns = 0
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = self._keys[fileobj] = selectors.SelectorKey(fileobj, 0, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._turns = self._turns + 1 if timeout == 0 else 0
        if timeout is None or self._turns > MOST_TURNS:
            raise Standstill
        self.elapsed_s += timeout
        return []


class Timeline(asyncio.SelectorEventLoop):
    """An event loop in simulated time. `time()` starts at 0, which is `begin`."""

    def __init__(self, begin: datetime = START) -> None:
        self._begin = begin
        self._waiting = _NoFiles()
        super().__init__(self._waiting)
        self._numbers = itertools.count()
        self.set_task_factory(self._make_task)

    def time(self) -> float:
        return self._waiting.elapsed_s

    def now(self) -> datetime:
        return self._begin + timedelta(seconds=self.time())

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, coroutine: Any, context: Context | None = None
    ) -> "asyncio.Task[Any]":
        return _NumberedTask(coroutine, next(self._numbers), loop=loop, context=context)


class _NumberedTask(asyncio.Task[Any]):
    """A task with its number as hash: anyio cancels a set of tasks, in an order that must be repeatable."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], number: int, **options: Any) -> None:
        self._number = number
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other
